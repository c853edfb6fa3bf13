"""How good a run's model is, measured again from its newest checkpoint, without any worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.build import build_backend, build_dataset, build_network
from knltrain.checkpoint import latest_checkpoint, load_checkpoint
from knltrain.config import RunConfig
from knltrain.errors import CheckpointError
from knltrain.evaluation import Evaluation, Evaluator
from knltrain.exchange.loopback import Loopback
from knltrain.launch.run_folder import read_config


@dataclass(frozen=True, slots=True)
class CheckpointEvaluation:
    """What the model of `checkpoint`, taken after `step` steps, does on the run's test images."""

    checkpoint: Path
    step: int
    found: Evaluation


def evaluate_run(run_folder: Path) -> CheckpointEvaluation:
    """Evaluate the model (the center) of the newest checkpoint on all the run's test images.

    Raises RunFolderError, CheckpointError, ConfigError, DataError or NonFiniteLoss.
    """
    config = read_config(run_folder)
    folder = latest_checkpoint(run_folder)
    if folder is None:
        raise CheckpointError(
            f"'{run_folder}' has no checkpoint to evaluate: let the run come to its end, or give "
            "it checkpoint.every_epochs above 0"
        )
    network = build_network(config)
    checkpoint = load_checkpoint(folder, network)
    images = build_dataset(config).test
    whole, at_a_time = _in_whole_batches(config)
    batch = min(at_a_time, len(images.labels))
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    configured = config.backend.threads
    threads = cores if configured == "auto" else min(configured, cores)
    backend = build_backend(whole, network, batch, threads)
    try:
        evaluator = Evaluator(images, backend, Loopback(1), batch)
        found = evaluator.evaluate(checkpoint.center.packed, checkpoint.step)
    finally:
        backend.close()
    return CheckpointEvaluation(folder, checkpoint.step, found)


def _in_whole_batches(config: RunConfig) -> tuple[RunConfig, int]:
    """The same run, but for its micro-batch, and how many images to evaluate at a time.

    That is a batch, as of one worker in place of all, or a micro-batch: nothing is to be measured
    or added up here, as it is for a gradient.
    """
    at_a_time, asked = config.train.batch, config.backend.micro_batch
    if asked != "auto" and asked > 0:
        at_a_time = min(at_a_time, asked)
    backend = config.backend.model_copy(update={"micro_batch": 0})
    return config.model_copy(update={"backend": backend}), at_a_time
