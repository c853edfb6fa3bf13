"""A network with its trained parameters: of a run, or of a file of weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from knltrain.assembly import build_network
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.errors import ConfigError
from knltrain.launch.kept_model import model_in
from knltrain.launch.run_folder import read_config, read_preprocessing, run_folder_of
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named


@final
@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A network, its parameters, where these come from, and notes on what was passed over.

    `preprocessing` is that of a run which has kept it.
    """

    network: Network
    parameters: ParameterVector
    origin: Path
    notes: tuple[str, ...] = ()
    preprocessing: ModelPreprocessing | None = None


def trained_model(source: str, weights: Path | None, classes: int | None = None) -> TrainedModel:
    """The model of a run's folder, in its newest whole checkpoint; or a network with `weights`.

    `source` is the folder, or the name or file of a network. Raises the errors of what is read,
    and ConfigError for weights beside a run or none beside a network.
    """
    folder = Path(source)
    if folder.is_dir():
        if weights is not None or classes is not None:
            raise ConfigError(
                f"'{source}' is a run's folder, which has its own weights and classes: leave out "
                "--weights and --classes"
            )
        run_folder, chosen = run_folder_of(folder)
        network = build_network(read_config(run_folder))
        checkpoint, notes = model_in(run_folder, chosen, network)
        known = read_preprocessing(run_folder)
        return TrainedModel(network, checkpoint.center, checkpoint.folder, tuple(notes), known)
    network = network_named(source, classes)
    if weights is None:
        raise ConfigError(
            f"'{source}' is a network without weights: expected --weights FILE, or a run's folder"
        )
    from knltrain.interchange.weights import load_weights

    parameters = ParameterVector(network)
    return TrainedModel(network, parameters, weights, load_weights(parameters, weights))
