"""ONNX files, as tests write them node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

IMAGES = ["batch", 4, 6, 6]


def node(kind: str, inputs: str, output: str, **settings: Any) -> Any:
    """A node with its inputs in one text."""
    return onnx.helper.make_node(kind, inputs.split(), [output], **settings)


def array(*shape: int) -> np.ndarray:
    """Values that are all different, not 0."""
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def file_of(
    path: Path, nodes: list[Any], tensors: dict[str, Any], images: list[Any] | None = None
) -> Path:
    """A file from "x" (N,4,6,6) to "y"."""
    graph = onnx.helper.make_graph(
        nodes,
        "small",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, images or IMAGES)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 3])],
        [onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in tensors.items()],
    )
    opset = onnx.helper.make_opsetid("", 20)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def behind(nodes: list[Any], tensors: dict[str, Any], path: Path) -> Path:
    """A file with nodes from "x" to "m", and a dense layer over its means."""
    head = [
        node("GlobalAveragePool", "m", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f fc.weight fc.bias", "y", transB=1),
    ]
    channels = tensors.pop("channels", 4)
    head_tensors = {"fc.weight": array(3, channels), "fc.bias": array(3)}
    return file_of(path, [*nodes, *head], {**tensors, **head_tensors})
