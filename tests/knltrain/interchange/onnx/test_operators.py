from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.importing import from_onnx
from knltrain.network.layers import (
    Activation,
    Addition,
    Affine,
    ChannelProduct,
    Concatenation,
    Dropout,
    Layer,
    LocalResponseNormalisation,
    ReLU,
)

from .onnx_files import array, behind, file_of, node

F = np.float32
NUMBERS = {"two": F(2), "half": F(0.5), "zero": F(0), "six": F(6), "minus": F(-1)}


def _layers(nodes: list[Any], tensors: dict[str, Any], path: Path) -> tuple[Layer, ...]:
    return from_onnx(behind(nodes, {**NUMBERS, **tensors}, path / "a.onnx")).network.layers


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("Relu", "x", "m")], ReLU("m")),
        ([node("LeakyRelu", "x", "m", alpha=0.25)], ReLU("m", slope=0.25)),
        ([node("Clip", "x zero six", "m")], ReLU("m", ceiling=6.0)),
        ([node("Sigmoid", "x", "m")], Activation("m", "sigmoid")),
        ([node("Tanh", "x", "m")], Activation("m", "tanh")),
        ([node("Gelu", "x", "m")], Activation("m", "gelu")),
        ([node("Gelu", "x", "m", approximate="tanh")], Activation("m", "gelu_tanh")),
        ([node("HardSwish", "x", "m")], Activation("m", "hard_swish")),
        ([node("HardSigmoid", "x", "m", alpha=1 / 6)], Activation("m", "hard_sigmoid")),
        (
            [node("Sigmoid", "x", "s"), node("Mul", "x s", "m")],
            Activation("m", "silu"),
        ),
        (
            [node("HardSigmoid", "x", "s", alpha=1 / 6), node("Mul", "s x", "m")],
            Activation("m", "hard_swish"),
        ),
        ([node("Add", "two x", "m")], Affine("m", 1.0, 2.0)),
        ([node("Sub", "x two", "m")], Affine("m", 1.0, -2.0)),
        ([node("Sub", "two x", "m")], Affine("m", -1.0, 2.0)),
        ([node("Mul", "x half", "m")], Affine("m", 0.5)),
        ([node("Div", "x two", "m")], Affine("m", 0.5)),
        ([node("Add", "x x", "m")], Affine("m", 2.0)),
        ([node("Dropout", "x half", "m")], Dropout("m", 0.5)),
        (
            [node("LRN", "x", "m", size=3, alpha=0.5, beta=0.75, bias=2.0)],
            LocalResponseNormalisation("m", 3, 0.5, 0.75, 2.0),
        ),
        ([node("Identity", "x", "i"), node("Relu", "i", "m")], ReLU("m")),
    ],
)
def test_node_is_a_layer(nodes: list[Any], expected: Layer, tmp_path: Path) -> None:
    first, *_ = _layers(nodes, {}, tmp_path)
    assert first == type(expected)(
        **{
            key: getattr(expected, key)
            for key in expected.__dataclass_fields__  # type: ignore[attr-defined]
            if key != "inputs"
        },
        inputs=("images",),
    )


def test_sums_concatenations_and_factors_join_what_was_computed(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Tanh", "x", "b"),
        node("Sum", "a b x", "s"),
        node("Concat", "s a", "c", axis=1),
        node("ReduceMean", "c axes", "d", keepdims=1),
        node("Mul", "d c", "m"),
    ]
    found = _layers(nodes, {"axes": np.array([-1, 2]), "channels": 8}, tmp_path)
    joins = [each for each in found if isinstance(each, (Addition, Concatenation, ChannelProduct))]
    assert [each.inputs for each in joins] == [
        ("a", "b"),
        ("s", "images"),
        ("s_2", "a"),
        ("c", "d"),
    ]


def test_constants_are_computed(tmp_path: Path) -> None:
    """Also those of shapes, as exporters write them for any number of images."""
    nodes = [
        node("Relu", "x", "r"),
        node("Shape", "r", "dims"),
        node("Gather", "dims first", "images"),
        node("Unsqueeze", "images axes", "images1"),
        node("Concat", "images1 rest", "target", axis=0),
        node("Reshape", "r target", "f"),
        node("Transpose", "w", "wt", perm=[1, 0]),
        node("MatMul", "f wt", "z"),
        node("Add", "z ip.bias", "y"),
    ]
    tensors = {
        "first": np.int64(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
        "w": array(3, 144),
        "ip.bias": array(3),
    }
    path = file_of(tmp_path / "a.onnx", nodes, tensors)
    found = from_onnx(path)
    assert np.array_equal(found.parameters.views["z.bias"], tensors["ip.bias"])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Erf", "x", "m")], r"\(Erf\): expected one of Add, .* Unsqueeze"),
        ([node("Clip", "x minus six", "m")], r"values from -1.0 to 6.0, expected from 0"),
        ([node("HardSigmoid", "x", "m")], "alpha = 0.2.*, beta = 0.5, expected 1/6 and 1/2"),
        ([node("Div", "two x", "m")], "a quotient by what is computed"),
        ([node("Sub", "x x", "m")], "of two computed values, expected a number"),
        ([node("Mul", "x x", "m")], "a product of shapes"),
        ([node("Mul", "x many", "m")], r"a constant of shape \(1, 4, 6, 6\), expected one number"),
        ([node("Concat", "x x", "m", axis=2)], "axis = 2, expected 1, the channels"),
        ([node("Softmax", "x", "m", axis=1)], "in the middle, expected it at the end"),
        ([node("Clip", "x zero s", "m")], "input 's' is computed, expected a constant"),
        ([node("Reshape", "x odd", "m")], r"from shape \(2, 4, 6, 6\) to \(4, 2, 6, 6\), expec"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_node(
    nodes: list[Any], message: str, tmp_path: Path
) -> None:
    tensors = {"many": array(1, 4, 6, 6), "odd": np.array([4, 2, 6, 6])}
    if "Clip" in nodes[0].op_type and "s" in nodes[0].input:
        nodes = [node("ReduceMax", "x", "s", keepdims=0), *nodes]
        message = r"\(ReduceMax\)"
    with pytest.raises(NetworkError, match=f"a.onnx: node '[ms]'.*{message}"):
        _layers(nodes, tensors, tmp_path)


def test_softmax_at_the_end_is_left_out(tmp_path: Path) -> None:
    for kind in ("Softmax", "LogSoftmax"):
        nodes = [
            node("Flatten", "x", "f"),
            node("Gemm", "f fc.weight", "z", transB=1),
            node(kind, "z", "y", axis=1),
        ]
        found = from_onnx(file_of(tmp_path / "a.onnx", nodes, {"fc.weight": 0.1 * array(3, 144)}))
        assert [each.name for each in found.network.layers] == ["fc"]
