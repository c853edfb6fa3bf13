"""Caffe's .solverstate: where a solver stopped, and the history of its optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.caffemodel import read_blob, read_content
from knltrain.interchange.caffe.net import CaffeNet
from knltrain.interchange.caffe.walk import Learnable
from knltrain.interchange.caffe.wire_format import message_of, text_of, varints, wire_fields
from knltrain.interchange.optimizer_file import VECTORS, OptimizerVectors
from knltrain.network.layers import ParameterSpec
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray

_ITERATION, _LEARNED_NET, _HISTORY = 1, 2, 3


@final
@dataclass(frozen=True, slots=True, eq=False)
class SolverState:
    """Iterations done, the weights' file as it was called then, and the history, float32."""

    iteration: int
    learned_net: str
    history: tuple[FloatArray, ...]


def read_solverstate(path: Path) -> SolverState:
    """Read a .solverstate; NetworkError for a file that cannot be read, or is none."""
    iteration, learned_net = None, ""
    history: list[FloatArray] = []
    for field in wire_fields(memoryview(read_content(path, "a .solverstate")), str(path)):
        if field.number == _ITERATION:
            iteration = next(varints(field, str(path)), None)
        elif field.number == _LEARNED_NET:
            learned_net = text_of(field)
        elif field.number == _HISTORY:
            where = f"{path}: history {len(history)}"
            history.append(read_blob(message_of(field, where), where))
    if iteration is None or not history:
        raise NetworkError(
            f"{path} tells {'no iteration' if iteration is None else 'no history'}: expected a "
            ".solverstate of Caffe, as it lies beside each .caffemodel"
        )
    return SolverState(iteration, learned_net, tuple(history))


def optimizer_vectors(
    state: SolverState, net: CaffeNet, optimizer: str, path: Path
) -> OptimizerVectors:
    """The state of our optimizer; `path` is that of the file, for messages.

    History is that of all arrays of the net in their order, also of statistics. NetworkError where
    it is of another net or type of solver.
    """
    names = VECTORS[optimizer]
    if len(state.history) != len(names) * len(net.learnable):
        raise NetworkError(
            f"{path} has the history of {len(state.history)} arrays: expected "
            f"{len(names)} for each of the net's {len(net.learnable)}, with optimizer "
            f"'{optimizer}'; it is of another net or type of solver"
        )
    specs: dict[str, list[ParameterSpec]] = {}
    for spec in net.network.parameters:
        specs.setdefault(spec.layer, []).append(spec)
    vectors = {}
    for number, name in enumerate(names):
        begin = number * len(net.learnable)
        vector = vectors[name] = ParameterVector(net.network)
        for place, (array, values) in enumerate(
            zip(net.learnable, state.history[begin:], strict=False), begin
        ):
            _copy(vector, _spec(specs, array), values, f"{path}: history {place}")
    return OptimizerVectors(optimizer, vectors)


def _spec(specs: Mapping[str, Sequence[ParameterSpec]], array: Learnable) -> ParameterSpec | None:
    """The parameter that an array of Caffe is; None for statistics and layers that were dropped."""
    if array.kind == "BatchNorm":
        return None
    own = [spec for spec in specs.get(array.layer, ()) if not spec.is_statistic]
    if array.kind == "Bias":
        own = own[1:]
    return own[array.place] if array.place < len(own) else None


def _copy(
    vector: ParameterVector, spec: ParameterSpec | None, values: FloatArray, where: str
) -> None:
    if spec is None:
        return
    if values.size != spec.size:
        raise NetworkError(
            f"{where} is {values.shape}: expected {spec.shape} of '{spec.name}'; it is of another "
            "net"
        )
    if not np.isfinite(values).all():
        raise NetworkError(f"{where} has values that are not finite: expected numbers")
    vector.views[spec.name][...] = values.reshape(spec.shape)
