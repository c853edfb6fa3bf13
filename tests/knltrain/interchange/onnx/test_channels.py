from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.importing import from_onnx
from knltrain.network.layers import (
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Convolution,
    Flatten,
    Layer,
    LayerNormalisation,
    MaxPooling,
    Padding,
    PReLU,
)

from .onnx_files import array, behind, file_of, node

LAST = node("Transpose", "x", "l", perm=[0, 2, 3, 1])
FIRST = node("Transpose", "n", "m", perm=[0, 3, 1, 2])
TENSORS: dict[str, Any] = {
    "one": array(1),
    "some": array(4, 1, 1),
    "maps": array(4, 6, 6),
    "four": array(4),
    "matrix": array(4, 8),
    "grouped": np.array([0, 2, 2, 6, 6]),
    "odd": np.array([0, 2, 2, 36, 1]),
    "shape": np.array([0, 4, 6, 6]),
    "first": np.array([1]),
    "second": np.array([2]),
    "end": np.array([-1]),
    "parts": np.array([1, 3]),
    "sides": np.array([0, 0, 1, 2, 0, 0, 3, 0]),
    "equal": np.array([1, 1, 1, 1]),
    "two": np.array([2, 3]),
    "lowest": np.float32(-np.inf),
    "half": np.float32(0.5),
}


def _tensors(nodes: list[Any]) -> dict[str, Any]:
    names = {name for each in nodes for name in each.input}
    return {name: values for name, values in TENSORS.items() if name in names}


def _alone(layer: Any) -> Layer:
    found: Layer = dataclasses.replace(layer, inputs=())
    return found


@pytest.mark.parametrize(
    ("nodes", "channels", "expected"),
    [
        ([node("PRelu", "x one", "m")], 4, PReLU("m", shared=True)),
        ([node("PRelu", "x some", "m")], 4, PReLU("m")),
        ([node("Mul", "some x", "m")], 4, ChannelScale("m")),
        ([node("Slice", "x first end first", "m")], 2, ChannelSlice("m", 1, 3)),
        ([node("Split", "x parts", "s", axis=1), node("Relu", "s", "m")], 1, None),
        ([node("Split", "x", "m", axis=-3, num_outputs=1)], 4, None),
        ([LAST, node("LayerNormalization", "l four four", "n"), FIRST], 4, LayerNormalisation("n")),
        ([LAST, node("LayerNormalization", "l four", "n"), FIRST], 4, LayerNormalisation("n")),
        ([LAST, node("MatMul", "l matrix", "n"), FIRST], 8, Convolution("n", 8, 1, bias=False)),
        ([LAST, node("Mul", "l four", "n"), FIRST], 4, ChannelScale("n")),
        ([node("Pad", "x sides", "m")], 4, Padding("m", 1, 3, 2, 0)),
        ([node("Pad", "x equal two", "m")], 4, Padding("m", 1, 1, 1, 1)),
        (
            [
                node("Reshape", "x grouped", "g"),
                node("Transpose", "g", "t", perm=[0, 2, 1, 3, 4]),
                node("Reshape", "t shape", "m"),
            ],
            4,
            ChannelShuffle("m", 2),
        ),
    ],
)
def test_nodes_are_layers(
    nodes: list[Any], channels: int, expected: Layer | None, tmp_path: Path
) -> None:
    if nodes[0].op_type == "Pad" and "two" in nodes[0].input:
        nodes[0].input[:] = ["x", "equal", "", "two"]
    if nodes[0].op_type == "Split" and len(nodes) > 1:
        nodes[0].output.append("rest")
    file = behind(nodes, {**_tensors(nodes), "channels": channels}, tmp_path / "a.onnx")
    layer = from_onnx(file).network.layers[0]
    if expected is not None:
        assert _alone(layer) == expected


def test_padding_is_within_the_window_where_that_is_the_same(tmp_path: Path) -> None:
    pad = node("Pad", "x equal lowest two", "q")
    nodes = [pad, node("MaxPool", "q", "m", kernel_shape=[3, 3], strides=[1, 1])]
    found = from_onnx(behind(nodes, _tensors(nodes), tmp_path / "a.onnx")).network
    assert _alone(found.layers[0]) == MaxPooling("m", 3, 1, (1, 1))


def test_bias_of_means_is_by_channel(tmp_path: Path) -> None:
    nodes = [
        node("GlobalAveragePool", "x", "g"),
        node("Conv", "g w", "c"),
        node("Add", "c some", "a"),
        node("Flatten", "a", "f"),
        node("Gemm", "f fc.weight", "y", transB=1),
    ]
    tensors = {"w": array(4, 4, 1, 1), "some": array(4, 1, 1), "fc.weight": array(3, 4)}
    layers = from_onnx(file_of(tmp_path / "a.onnx", nodes, tensors)).network.layers
    assert [type(each).__name__ for each in layers] == ["GlobalAveragePooling", "Dense", "Dense"]


def test_units_of_flattened_maps_have_factors(tmp_path: Path) -> None:
    nodes = [
        node("Flatten", "x", "f"),
        node("PRelu", "f units", "p"),
        node("Mul", "f units", "q"),
        node("Concat", "p q", "c", axis=1),
        node("Gemm", "c fc.weight", "y", transB=1),
    ]
    tensors = {"units": array(144), "fc.weight": array(3, 288)}
    network = from_onnx(file_of(tmp_path / "a.onnx", nodes, tensors)).network
    assert network.layers[:3] == (
        Flatten("images.flat", ("images",)),
        PReLU("p", inputs=("images.flat",)),
        ChannelScale("q", inputs=("images.flat",)),
    )


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("PRelu", "x maps", "m")], r"slopes of shape \(4, 6, 6\), expected one number"),
        ([node("Slice", "x first end second", "m")], "expected one of channels alone"),
        ([node("Slice", "x first end first second", "m")], "steps of 2, expected steps of 1"),
        (
            [node("Slice", "x first two first", "m")],
            r"starts \[1\], ends \[2, 3\], axes \[1\], exp",
        ),
        ([node("Pad", "x sides four", "m")], r"values of shape \(4,\), expected one number"),
        ([node("Slice", "x second first first", "m")], "channels 2 to 1, expected one or more"),
        ([node("Split", "x", "m", axis=2, num_outputs=1)], "axis = 2, expected 1, the channels"),
        ([node("Transpose", "x", "m", perm=[0, 1, 3, 2])], r"perm = \[0, 1, 3, 2\] of shape \(2"),
        ([node("Transpose", "x", "m")], r"perm = \[3, 2, 1, 0\]"),
        ([node("Pad", "x sides half", "m")], "'constant' with 0.5, expected 'constant' with 0"),
        ([node("Pad", "x sides", "m", mode="edge")], "mode 'edge' with"),
        ([node("LayerNormalization", "x four", "m")], r"an input of shape \(2, 4, 6, 6\), expec"),
        ([node("Reshape", "x odd", "m")], r"to \(2, 2, 2, 36, 1\), expected to flatten"),
        (
            [node("Reshape", "x grouped", "g"), node("Relu", "g", "m")],
            r"an input of shape \(2, 2, 2, 6, 6\), expected",
        ),
        ([LAST, node("LayerNormalization", "l four", "m", axis=1)], "axis = 1, expected -1"),
        ([LAST, node("Reshape", "l shape", "m")], r"from shape \(2, 6, 6, 4\)"),
    ],
)
def test_other_forms_are_refused_with_their_node(
    nodes: list[Any], message: str, tmp_path: Path
) -> None:
    file = behind(nodes, _tensors(nodes), tmp_path / "a.onnx")
    with pytest.raises(NetworkError, match=f"a.onnx: node 'm'.*{message}"):
        from_onnx(file)
