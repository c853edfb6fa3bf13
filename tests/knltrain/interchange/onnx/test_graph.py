from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx import installation
from knltrain.interchange.onnx.graph import read_graph

from .onnx_files import file_of, node, onnx


def test_graph_has_its_ends_nodes_and_tensors(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("LRN", "r", "y", size=3)]
    nodes[0].name = "first"
    graph = read_graph(file_of(tmp_path / "a.onnx", nodes, {"t": np.arange(3)}))
    assert (graph.name, graph.input, graph.output) == ("small", "x", "y")
    assert graph.images == (2, 4, 6, 6)
    first, second = graph.nodes
    assert (first.name, first.kind, first.inputs) == ("first", "Relu", ("x",))
    assert (second.name, second.settings) == ("y", {"size": 3})
    assert graph.tensors["t"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (["batch", 4, "height", 6], r"input 'x' has the shape \['batch', 4, 'height', 6\]: expect"),
        ([2, 4], r"has the shape \[2, 4\]: expected images \(N,C,H,W\)"),
    ],
)
def test_images_of_other_shapes_are_named(images: list[Any], message: str, tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.onnx", [node("Relu", "x", "y")], {}, images)
    with pytest.raises(NetworkError, match=message):
        read_graph(path)


def test_fixed_batch_stays(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.onnx", [node("Relu", "x", "y")], {}, [5, 4, 6, 6])
    assert read_graph(path).images == (5, 4, 6, 6)


def test_other_domains_are_named(tmp_path: Path) -> None:
    custom = onnx.helper.make_node("Fast", ["x"], ["y"], name="n", domain="com.example")
    path = tmp_path / "a.onnx"
    model = onnx.load(file_of(path, [node("Relu", "x", "y")], {}))
    model.graph.node[0].CopyFrom(custom)
    model.opset_import.append(onnx.helper.make_opsetid("com.example", 1))
    onnx.save(model, path)
    with pytest.raises(NetworkError, match=r"node 'n' \(com.example.Fast\): expected ONNX's own"):
        read_graph(path)


def test_files_that_are_none_are_named_at_any_cut(tmp_path: Path) -> None:
    whole = file_of(tmp_path / "a.onnx", [node("Relu", "x", "y")], {"t": np.arange(9)}).read_bytes()
    path = tmp_path / "b.onnx"
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(NetworkError, match=r"b.onnx"):
            read_graph(path)
    with pytest.raises(NetworkError, match=r"none.onnx cannot be read"):
        read_graph(tmp_path / "none.onnx")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    with pytest.raises(NetworkError, match=r"package onnx and onnxscript, .* pip install 'knltra"):
        read_graph(tmp_path / "a.onnx")
