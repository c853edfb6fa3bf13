"""What a run folder keeps of its model: the parameters of a checkpoint, and the preprocessing."""

from __future__ import annotations

from pathlib import Path

from knltrain.assembly import build_dataset
from knltrain.assembly.preprocessing import model_preprocessing
from knltrain.checkpoint.folders import by_step
from knltrain.checkpoint.reader import Checkpoint, load_checkpoint
from knltrain.config import RunConfig
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.errors import CheckpointError, DamagedCheckpoint, DataError
from knltrain.launch.run_folder import PREPROCESSING, read_preprocessing
from knltrain.network.network import Network


def model_in(
    run_folder: Path, chosen: Path | None, network: Network
) -> tuple[Checkpoint, list[str]]:
    """The checkpoint `chosen`, or the newest whose model is whole; notes on damaged ones.

    Raises CheckpointError where there is none, DamagedCheckpoint where none is whole.
    """
    if chosen is not None:
        return load_checkpoint(chosen, network), []
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
        f"'{run_folder}' has no checkpoint to evaluate: let the run come to its end, with "
        "checkpoint.at_end, or give it checkpoint.every_epochs above 0"
    )


def preprocessing_of_run(
    run_folder: Path, config: RunConfig, network: Network
) -> tuple[ModelPreprocessing, list[str]]:
    """How pictures become the images of a run's model, and notes on how that is known.

    Folders of older versions do not tell: then the run's data set is read again. Raises DataError
    for a file that does not belong to the network, and what reading a data set raises.
    """
    found, notes = read_preprocessing(run_folder), []
    if found is None:
        found = model_preprocessing(config.data, build_dataset(config))
        notes = [
            f"'{run_folder}' has no {PREPROCESSING}, as runs of older versions: mean, deviation "
            f"and class names are those of data set '{config.data.name}' as it is now"
        ]
    classes = (len(found.class_names),)
    if (found.image_shape, classes) != (network.input_shape, network.output_shape):
        raise DataError(
            f"{run_folder / PREPROCESSING}: images (H, W, C) = {found.image_shape} in "
            f"{classes[0]} classes, but network '{network.name}' takes {network.input_shape} and "
            f"has outputs {network.output_shape}: expected the file that lay beside its "
            "network.json; copy it anew"
        )
    return found, notes
