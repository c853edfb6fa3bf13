"""Evaluates a run's model again from its newest checkpoint, without any worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.assembly import build_backend, build_dataset, build_network, check_data
from knltrain.assembly.losses import check_labels, tells_each_class
from knltrain.checkpoint.folders import by_step
from knltrain.checkpoint.reader import Checkpoint, load_checkpoint
from knltrain.config import RunConfig
from knltrain.data.skipped import SKIPPED
from knltrain.errors import CheckpointError, ConfigError, DamagedCheckpoint
from knltrain.evaluation import Evaluation, Evaluator
from knltrain.exchange.transports.loopback import Loopback
from knltrain.launch.run_folder import read_config
from knltrain.network.network import Network

CHANGEABLE: Final = ("data.name", "data.root", "evaluation.crops")
"""Keys that may differ from the training's: name and place of the data, images of each picture."""


@dataclass(frozen=True, slots=True)
class CheckpointEvaluation:
    """The evaluation of the model in `checkpoint`, after `step` steps, on the run's test images."""

    checkpoint: Path
    step: int
    found: Evaluation
    notes: tuple[str, ...] = ()


def evaluate_run(
    run_folder: str | Path, overrides: Sequence[str] = (), accepts_other_data: bool = False
) -> CheckpointEvaluation:
    """Evaluate the model (the center) of the newest whole checkpoint on all the run's test images.

    Damaged checkpoints are not renamed, as the run may still be going on. Only `CHANGEABLE` keys
    may be overridden. The data must be those of the run, unless others are accepted.

    Raises RunFolderError, CheckpointError, ConfigError, DataError or NonFiniteLoss.
    """
    run_folder = Path(run_folder)
    for override in overrides:
        if override.partition("=")[0].strip() not in CHANGEABLE:
            raise ConfigError(
                f"--set {override}: a run is evaluated as it was trained, only "
                f"{', '.join(CHANGEABLE)} may change"
            )
    config = read_config(run_folder, tuple(overrides))
    network = build_network(config)
    checkpoint, notes = newest_model(run_folder, network)
    SKIPPED.reasons.clear()
    dataset = build_dataset(config)
    notes += check_data(checkpoint, dataset.contents, accepts_other_data)
    check_labels(config, network, dataset)
    images = dataset.test
    whole, at_a_time = _in_whole_batches(config)
    batch = min(at_a_time, len(images.labels))
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    configured = config.backend.threads
    threads = cores if configured == "auto" else min(configured, cores)
    backend = build_backend(whole, network, batch, threads)
    try:
        several = tells_each_class(config, images.labels)
        crops = dataset.test_crops
        evaluator = Evaluator(images, backend, Loopback(1), batch, dataset.classes, several, crops)
        found = evaluator.evaluate(checkpoint.center.packed, checkpoint.step, by_class=True)
    finally:
        backend.close()
    if SKIPPED:
        notes.append(str(SKIPPED))
    return CheckpointEvaluation(checkpoint.folder, checkpoint.step, found, tuple(notes))


def newest_model(run_folder: Path, network: Network) -> tuple[Checkpoint, list[str]]:
    """The newest checkpoint whose model is whole, and notes on those that are damaged."""
    damaged: list[str] = []
    for _, folder in reversed(by_step(run_folder)):
        try:
            checkpoint = load_checkpoint(folder, network)
        except DamagedCheckpoint as error:
            damaged.append(str(error))
        else:
            return checkpoint, [f"{why}; {folder.name} is taken" for why in damaged]
    if damaged:
        raise DamagedCheckpoint(f"{'; '.join(damaged)}; no checkpoint is whole")
    raise CheckpointError(
        f"'{run_folder}' has no checkpoint to evaluate: let the run come to its end, or give "
        "it checkpoint.every_epochs above 0"
    )


def _in_whole_batches(config: RunConfig) -> tuple[RunConfig, int]:
    """The same run with micro-batch 0, and how many images to evaluate at a time.

    That is a batch, as of one worker in place of all, or a micro-batch: evaluation needs neither
    the measurements nor the sums that a gradient needs.
    """
    at_a_time, asked = config.train.batch, config.backend.micro_batch
    if asked != "auto" and asked > 0:
        at_a_time = min(at_a_time, asked)
    backend = config.backend.model_copy(update={"micro_batch": 0})
    return config.model_copy(update={"backend": backend}), at_a_time
