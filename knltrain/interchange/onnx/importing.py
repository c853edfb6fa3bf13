"""Networks of ONNX files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.channels import CHANNELS
from knltrain.interchange.onnx.comparison import check_same
from knltrain.interchange.onnx.graph import read_graph
from knltrain.interchange.onnx.operators import OPERATORS
from knltrain.interchange.onnx.reading import Reading
from knltrain.interchange.onnx.windows import WINDOWS
from knltrain.interchange.torch_terms.padding import without_paddings
from knltrain.network.graph import Output
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


@final
@dataclass(frozen=True, slots=True, eq=False)
class OnnxNetwork:
    """A network made of an ONNX file, and its parameters."""

    network: Network
    parameters: ParameterVector


def from_onnx(path: str | Path, name: str | None = None) -> OnnxNetwork:
    """A network that computes what an ONNX file does: images (N,C,H,W) to logits, or their softmax.

    Layers have the names of their weights. Both then compute a batch, the file by ONNX's reference
    implementation: raises NetworkError if their outputs differ by more than 1e-4 of the largest.
    So it does for anything that a network cannot express, with the node's name.
    """
    path = Path(path)
    graph = read_graph(path)
    reading = Reading(graph)
    try:
        for node in graph.nodes:
            readers = {**OPERATORS, **WINDOWS, **CHANNELS}
            if reading.fold(node):
                continue
            if node.kind not in readers:
                raise node.refused(f"expected one of {', '.join(sorted(readers))}")
            readers[node.kind](node, reading)
        network = _network(reading, name or graph.name)
    except NetworkError as error:
        raise NetworkError(f"{path}: {error}") from error
    parameters = ParameterVector(network)
    for spec in network.parameters:
        values = np.asarray(reading.tensors[spec.name])
        if values.size != spec.size or values.dtype.kind != "f" or not np.isfinite(values).all():
            raise NetworkError(
                f"{path}: '{spec.name}' is {values.dtype} {values.shape}: expected finite float32 "
                f"{spec.shape}"
            )
        parameters.views[spec.name][...] = values.reshape(spec.shape)
    check_same(graph, network, parameters, path)
    return OnnxNetwork(network, parameters)


def _network(reading: Reading, name: str) -> Network:
    end = reading.values.get(reading.graph.output)
    if end is None or end.form not in ("vector", "mean") or not reading.layers:
        raise NetworkError(
            f"output '{reading.graph.output}' is no vector that nodes compute: expected logits "
            "(N,classes)"
        )
    _, channels, height, width = reading.graph.images
    shape = (height, width, channels)
    outputs = (Output(end.layer),)
    layers = without_paddings(reading.needed(end.layer), outputs)
    return Network(name or "onnx", shape, layers, outputs)
