from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx import reading as module
from knltrain.interchange.onnx.graph import read_graph
from knltrain.interchange.onnx.reading import Reading
from knltrain.network.layers import ReLU

from .onnx_files import array, file_of, node


def _reading(folder: Path, nodes: list[Any], **tensors: Any) -> Reading:
    return Reading(read_graph(file_of(folder / "a.onnx", nodes, tensors)))


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        ("layer1.0.conv1.weight", "layer1.0.conv1"),
        ("/conv/kernel", "/conv"),
        ("conv_W", "conv"),
        ("onnx::Conv_123", "y"),
        ("..weight", "Conv"),
        ("a b.weight", "a_b"),
        ("images.weight", "images_2"),
    ],
)
def test_layers_have_the_names_of_their_weights(tensor: str, name: str, tmp_path: Path) -> None:
    graph = _reading(tmp_path, [node("Conv", "x w", "y")], w=array(3, 4, 6, 6)).graph
    found = graph.nodes[0]
    object.__setattr__(found, "inputs", ("x", tensor))
    assert Reading(graph).name_of(found, 1) == name


def test_names_that_are_taken_get_numbers(tmp_path: Path) -> None:
    reading = _reading(tmp_path, [node("Relu", "x", "y")])
    (first,) = reading.graph.nodes
    for expected in ("y", "y_2", "y_3"):
        name = reading.name_of(first)
        assert name == expected
        reading.layers[name] = ReLU(name)


def test_constants_that_would_not_fit_into_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node("ConstantOfShape", "dims", "c"), node("Relu", "x", "y")]
    reading = _reading(tmp_path, nodes, dims=np.array([1 << 20, 1 << 20]))
    with pytest.raises(NetworkError, match=r"a constant that cannot be computed \(too large\)"):
        reading.fold(reading.graph.nodes[0])
    monkeypatch.setattr(module, "_MOST_CONSTANT", 1 << 41)
    assert not reading.fold(reading.graph.nodes[1])
