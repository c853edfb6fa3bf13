"""Compares a network with the ONNX file that it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.graph import Array, Graph
from knltrain.interchange.to_torch import to_torch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

TOLERANCE: Final = 1e-4
"""Of the largest output: how much a network's outputs may differ from the file's."""


def check_same(graph: Graph, network: Network, parameters: ParameterVector, path: Path) -> None:
    """Compute a batch by ONNX's reference implementation: NetworkError if outputs differ."""
    images = np.random.default_rng(0).normal(size=graph.images).astype(np.float32)
    expected = _evaluated(graph, images, path)
    with torch.no_grad():
        found = to_torch(network, parameters).eval()(torch.from_numpy(images))
    end = next((each.kind for each in graph.nodes if graph.output in each.outputs), "")
    if end == "Softmax":
        found = found.softmax(1)
    elif end == "LogSoftmax":
        found = found.log_softmax(1)
    values = found.numpy().reshape(expected.shape)
    difference, largest = np.abs(values - expected).max(), np.abs(expected).max()
    if not difference <= TOLERANCE * largest:
        raise NetworkError(
            f"{path}: the network's outputs differ from the file's by {difference:.3g} of "
            f"{largest:.3g}: expected finite values, and operators as ONNX defines them"
        )


def _evaluated(graph: Graph, images: Array, path: Path) -> Array:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class LRN(OpRun):  # type: ignore[misc, unused-ignore]
        """Of all channels: that of onnx 1.23 stops at as many as there are images."""

        def _run(self, x: Array, **settings: Any) -> tuple[Array]:
            size = settings["size"]
            before, behind = (size - 1) // 2, size // 2 + 1
            squares = np.stack(
                [
                    (x[:, max(0, each - before) : each + behind] ** 2).sum(1)
                    for each in range(x.shape[1])
                ],
                axis=1,
            )
            base = settings["bias"] + settings["alpha"] / size * squares
            return ((x / base ** settings["beta"]).astype(x.dtype),)

    try:
        evaluator = ReferenceEvaluator(graph.model, new_ops=[LRN])
        found: Any = evaluator.run([graph.output], {graph.input: images})
    except Exception as error:
        raise NetworkError(f"{path} cannot be computed ({error})") from error
    values: Array = found[0]
    return values
