"""A file of an optimizer's state, with which a run goes on where another program has stopped.

Its tensors are those of the state's vectors, parameter by parameter, as "velocity:conv1.weights";
its metadata say the optimizer's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from knltrain.errors import NetworkError
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray

_OPTIMIZER: Final = "optimizer"
VECTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "sgd": ("velocity",),
    "adagrad": ("squared_gradients",),
    "rmsprop": ("squared_gradients",),
    "adadelta": ("squared_gradients", "squared_steps"),
    "adam": ("first_moment", "second_moment"),
}
"""Optimizer -> the vectors of its state, in the order of Caffe's history."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class OptimizerVectors:
    """The optimizer's name, and its packed vectors (n,) by name."""

    optimizer: str
    vectors: Mapping[str, ParameterVector]


def optimizer_file(state: OptimizerVectors) -> bytes:
    """The content of the file."""
    tensors = {
        f"{name}:{spec.name}": vector.views[spec.name]
        for name, vector in state.vectors.items()
        for spec in vector.network.parameters
        if not spec.is_statistic
    }
    content: bytes = save(tensors, {_OPTIMIZER: state.optimizer})
    return content


def read_optimizer_file(path: Path, network: Network) -> OptimizerVectors:
    """The state in a file, for a network; NetworkError for a file that does not fit it."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise NetworkError(
            f"train.optimizer_state = '{path}' cannot be read ({error}): expected a file of "
            "`knltrain import-caffe --solverstate`"
        ) from error
    if _OPTIMIZER not in metadata:
        raise NetworkError(
            f"train.optimizer_state = '{path}' tells no optimizer: expected a file of "
            "`knltrain import-caffe --solverstate`"
        )
    where = f"train.optimizer_state = '{path}'"
    given, optimizer = {key.partition(":")[0] for key in tensors}, metadata[_OPTIMIZER]
    if given != set(VECTORS.get(optimizer, ())):
        known = {name: list(states) for name, states in VECTORS.items()}
        raise NetworkError(
            f"{where} has the vectors {sorted(given)} of optimizer '{optimizer}': expected "
            f"{known.get(optimizer) or known}"
        )
    trained = {spec.name: spec for spec in network.parameters if not spec.is_statistic}
    vectors: dict[str, ParameterVector] = {}
    for key, values in tensors.items():
        of_state, _, name = key.partition(":")
        vector = vectors.setdefault(of_state, ParameterVector(network))
        if name not in trained or values.shape != trained[name].shape:
            raise NetworkError(
                f"{where}: {key} {values.shape} is no parameter of network "
                f"'{network.name}': expected the state of that network"
            )
        vector.views[name][...] = _finite(values, f"{where}: {key}")
    for state in vectors:
        missing = [name for name in trained if f"{state}:{name}" not in tensors]
        if missing:
            raise NetworkError(
                f"{where} lacks {state}:{missing[0]}: expected all parameters of network "
                f"'{network.name}'"
            )
    return OptimizerVectors(optimizer, vectors)


def _finite(values: FloatArray, where: str) -> FloatArray:
    if not np.isfinite(values).all():
        raise NetworkError(f"{where} has values that are not finite: expected numbers")
    return values
