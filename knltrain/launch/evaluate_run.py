"""Evaluates a run's model again from its newest checkpoint, without any worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.assembly import build_backend, build_network, check_data
from knltrain.assembly.losses import check_targets, tells_each_class
from knltrain.assembly.names import build_kernels, read_halves, with_decoding_of
from knltrain.assembly.preprocessing import images_for
from knltrain.config import RunConfig, with_data
from knltrain.data.dataset import Halves, LabelledImages
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.data.relabelled import told, with_classes_of
from knltrain.data.source import SKIPPED
from knltrain.errors import ConfigError
from knltrain.evaluation import Evaluation, Evaluator
from knltrain.exchange.transports.loopback import Loopback
from knltrain.launch.kept_model import model_in, preprocessing_of_run
from knltrain.launch.run_folder import read_config, run_folder_of

CHANGEABLE: Final = ("data.name", "data.root", "evaluation.crops")
"""Keys that may differ from the training's: name and place of the data, images of each picture."""

OF_THE_MODEL: Final = (
    *("side_pixels", "recipe", "shift_pixels", "jitter", "operations", "magnitude"),
    *("mixup", "cutmix"),
    *("mean", "mean_file", "deviation", "network_order", "channels", "exif", "batches_ahead"),
    *("order", "block_images"),
)
"""Keys of `[data]` that another data set does not choose: the model has its own preprocessing."""

Half: TypeAlias = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class CheckpointEvaluation:
    """The evaluation of the model in `checkpoint`, after `step` steps, on one half's images."""

    checkpoint: Path
    step: int
    found: Evaluation
    notes: tuple[str, ...] = ()
    half: Half = "test"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of the model, by number; () where they are not known."""
        classes = self.found.classes
        return () if classes is None else classes.names


def evaluate_run(
    run_folder: str | Path,
    overrides: Sequence[str] = (),
    accepts_other_data: bool = False,
    *,
    data: Sequence[str] = (),
    half: Half = "test",
) -> CheckpointEvaluation:
    """Evaluate the model (the center) of the newest whole checkpoint on all images of a half.

    `run_folder` may be a checkpoint in it, too. Damaged checkpoints are not renamed, as the run may
    still be going on. Only `CHANGEABLE` keys may be overridden. The data must be those of the run,
    unless others are accepted.

    `data` are keys and values of another data set's `[data]`, such as "name=folder" and
    "root=/data". Its pictures become images as those of the run did, and its classes are matched
    with the model's by their names.

    Raises RunFolderError, CheckpointError, ConfigError, DataError or NonFiniteLoss.
    """
    _check_keys(overrides, data)
    run_folder, chosen = run_folder_of(Path(run_folder))
    config = read_config(run_folder, tuple(overrides))
    network = build_network(config)
    checkpoint, notes = model_in(run_folder, chosen, network)
    SKIPPED.reasons.clear()
    if not data:
        halves = read_halves(config)
        notes += check_data(checkpoint, halves.contents, accepts_other_data)
    known, doubts = preprocessing_of_run(run_folder, config, network)
    notes += doubts
    if data:
        config = _of_other_data(config, data, known)
        halves = read_halves(config)
        notes += [*halves.notes, *_absent(halves, half, known)]
    images, *crops = _images(config, halves, known, half)
    whole, at_a_time, other = _in_whole_batches(config)
    notes += other
    batch = min(at_a_time, len(images.labels))
    backend = build_backend(whole, network, batch, threads_here(config))
    try:
        several = tells_each_class(config, images.labels)
        classes = len(known.class_names)
        evaluator = Evaluator(images, backend, Loopback(1), batch, classes, several, crops)
        found = evaluator.evaluate(checkpoint.center.packed, checkpoint.step, by_class=True)
    finally:
        backend.close()
    if SKIPPED:
        notes.append(str(SKIPPED))
    kept = checkpoint.folder, checkpoint.step
    return CheckpointEvaluation(*kept, found, tuple(notes), half)


def threads_here(config: RunConfig) -> int:
    """Threads of one process in place of all workers: no more than there are cores here."""
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    configured = config.backend.threads
    return cores if configured == "auto" else min(configured, cores)


def _check_keys(overrides: Sequence[str], data: Sequence[str]) -> None:
    for override in overrides:
        if override.partition("=")[0].strip() not in CHANGEABLE:
            raise ConfigError(
                f"--set {override}: a run is evaluated as it was trained, only "
                f"{', '.join(CHANGEABLE)} may change"
            )
    for each in data:
        if each.partition("=")[0].strip() in OF_THE_MODEL:
            raise ConfigError(
                f"--data {each}: the model has its own preprocessing; expected keys that say where "
                "pictures and labels are: leave it out"
            )


def _of_other_data(config: RunConfig, data: Sequence[str], known: ModelPreprocessing) -> RunConfig:
    """The run with another data set, whose pictures are decoded for the model."""
    config = with_data(config, data)
    decoded = with_decoding_of(config.data, known.image_shape[2], known.exif)
    return config.model_copy(update={"data": decoded})


def _absent(halves: Halves, half: Half, known: ModelPreprocessing) -> list[str]:
    source = halves.test if half == "test" else halves.train
    absent = [name for name in known.class_names if name not in source.class_names]
    return [f"the data set has no classes {told(absent)}, which the model knows"] * bool(absent)


def _images(
    config: RunConfig, halves: Halves, known: ModelPreprocessing, half: Half
) -> list[LabelledImages]:
    """The images of a half as the model takes them, then ten crops of each if they are asked for.

    Raises DataError where classes or channels are others than the model's.
    """
    where = halves.description or halves.name
    source = with_classes_of(
        halves.test if half == "test" else halves.train, known.class_names, where
    )
    if source.channels != known.image_shape[2]:
        raise ConfigError(
            f"{where}: pictures have {source.channels} channels, the model takes "
            f"{known.image_shape[2]}: expected the same"
        )
    if source.labels.ndim == 2:
        check_targets(config.loss.kind, source.labels, where)
    kernels, crops = build_kernels(config), config.evaluation.crops
    made = images_for(known, kernels)
    if crops > 1:
        made += images_for(known, kernels, crops)
    return [LabelledImages(source, each) for each in made]


def _in_whole_batches(config: RunConfig) -> tuple[RunConfig, int, tuple[str, ...]]:
    """The same run with micro-batch 0, how many images to evaluate at a time, and notes.

    That is a batch, as of one worker in place of all, or a micro-batch: evaluation needs neither
    the measurements nor the sums that a gradient needs.
    """
    at_a_time, asked = config.train.batch, config.backend.micro_batch
    if asked != "auto" and asked > 0:
        at_a_time = min(at_a_time, asked)
    whole, notes = in_one_piece(config)
    return whole, at_a_time, notes


def in_one_piece(config: RunConfig) -> tuple[RunConfig, tuple[str, ...]]:
    """The same run by `[backend]` alone, on the host if its device is not here; and notes.

    Without micro-batches, which only gradients need, and their measurements. In float32 where this
    processor has no bfloat16, and without AMX where it has none.
    """
    backend = config.backend.of(None).model_copy(update={"micro_batch": 0})
    if backend.device != "cpu":
        from knltrain.backends.torch.devices import device_or_host

        backend = backend.model_copy(update={"device": device_or_host(backend.device)})
    notes: tuple[str, ...] = ()
    if backend.precision != "float32":
        from knltrain.backends.cpu.precision import computable_here

        backend, notes = computable_here(backend)
    return config.model_copy(update={"backend": backend}), notes
