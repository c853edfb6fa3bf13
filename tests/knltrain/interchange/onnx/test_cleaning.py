from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.interchange.onnx.cleaning import clean

from .onnx_files import array, file_of, node, onnx

reference = pytest.importorskip("onnx.reference", reason="the extra onnx is not installed")


def test_graph_computes_the_same_with_what_is_needed(tmp_path: Path) -> None:
    rest = onnx.helper.make_node("Constant", [], ["rest"], value_ints=[-1])
    nodes = [
        node("Shape", "x", "dims", end=1),
        rest,
        node("Concat", "dims rest", "target", axis=0),
        node("Relu", "x", "r"),
        node("Reshape", "r target", "f"),
        node("Gemm", "f w", "y"),
        node("Tanh", "r", "unused"),
    ]
    tensors = {"w": array(144, 3), "other": array(2)}
    model = onnx.load(file_of(tmp_path / "a.onnx", nodes, tensors))
    entry = model.graph.node[3].metadata_props.add()
    entry.key, entry.value = "file", "/home/me/secret.py"
    images = {"x": array(5, 4, 6, 6)}
    before = reference.ReferenceEvaluator(model).run(None, images)[0]
    clean(model.graph)
    onnx.checker.check_model(model)
    assert [each.op_type for each in model.graph.node] == ["Relu", "Flatten", "Gemm"]
    assert [each.name for each in model.graph.initializer] == ["w"]
    assert b"secret" not in model.SerializeToString()
    assert np.array_equal(reference.ReferenceEvaluator(model).run(None, images)[0], before)


def test_constants_are_tensors(tmp_path: Path) -> None:
    half = onnx.helper.make_node("Constant", [], ["half"], value_float=0.5)
    model = onnx.load(file_of(tmp_path / "a.onnx", [half, node("Mul", "x half", "y")], {}))
    clean(model.graph)
    (tensor,) = model.graph.initializer
    assert (tensor.name, onnx.numpy_helper.to_array(tensor).item()) == ("half", 0.5)
