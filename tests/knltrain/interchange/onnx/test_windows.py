from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.importing import OnnxNetwork, from_onnx
from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
)

from .onnx_files import array, behind, file_of, node

CONV = {"c.weight": array(8, 2, 3, 1), "c.bias": array(8), "channels": 8}


def _found(nodes: list[Any], tensors: dict[str, Any], folder: Path) -> OnnxNetwork:
    return from_onnx(behind(nodes, dict(tensors), folder / "a.onnx"))


@pytest.mark.parametrize(
    ("nodes", "tensors", "expected"),
    [
        (
            [
                node(
                    "Conv",
                    "x c.weight c.bias",
                    "m",
                    group=2,
                    strides=[2, 1],
                    pads=[1, 0, 1, 0],
                    dilations=[1, 2],
                )
            ],
            CONV,
            Convolution("c", 8, (3, 1), (2, 1), (1, 0), (1, 2), 2),
        ),
        (
            [node("Conv", "x c.weight", "m", group=2, auto_pad="SAME_UPPER")],
            CONV,
            Convolution("c", 8, (3, 1), padding=(1, 0), groups=2, bias=False),
        ),
        (
            [node("Conv", "x c.weight none", "m", group=2)],
            CONV | {"none": np.zeros(8, np.float32)},
            Convolution("c", 8, (3, 1), groups=2, bias=False),
        ),
        (
            [node("MaxPool", "x", "m", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
            {},
            MaxPooling("m", 3, 2, ceil=True),
        ),
        (
            [node("AveragePool", "x", "m", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
            {},
            AveragePooling("m", 3, 1, 1, counts_padding=False),
        ),
        ([node("GlobalMaxPool", "x", "m")], {}, MaxPooling("m", 6, 6)),
    ],
)
def test_node_is_a_layer(
    nodes: list[Any], tensors: dict[str, Any], expected: Layer, tmp_path: Path
) -> None:
    first, *_ = _found(nodes, tensors, tmp_path).network.layers
    fields = {key: getattr(expected, key) for key in expected.__dataclass_fields__}  # type: ignore[attr-defined]
    assert first == type(expected)(**{**fields, "inputs": ("images",)})


def test_batch_normalisation_has_its_arrays(tmp_path: Path) -> None:
    names = ("n.weight", "n.bias", "n.running_mean", "n.running_var")
    tensors = {name: abs(array(4)) + number for number, name in enumerate(names)}
    nodes = [node("BatchNormalization", f"x {' '.join(names)}", "m", epsilon=1e-3, momentum=0.99)]
    found = _found(nodes, tensors, tmp_path)
    (first, *_) = found.network.layers
    assert isinstance(first, BatchNormalisation)
    assert (first.name, first.momentum) == ("n", pytest.approx(0.01))
    assert first.epsilon == pytest.approx(1e-3)
    for role, name in zip(
        ("scale", "shift", "running_mean", "running_variance"), names, strict=True
    ):
        assert np.array_equal(found.parameters.views[f"n.{role}"], tensors[name])


def test_convolution_of_means_is_a_dense_layer(tmp_path: Path) -> None:
    nodes = [
        node("GlobalAveragePool", "x", "q"),
        node("Conv", "q fc1.weight fc1.bias", "s"),
        node("Mul", "x s", "m"),
    ]
    tensors = {"fc1.weight": array(4, 4, 1, 1), "fc1.bias": array(4)}
    layers = _found(nodes, tensors, tmp_path).network.layers
    assert [type(each) for each in layers[:2]] == [GlobalAveragePooling, Dense]


def test_dense_layers_of_all_forms(tmp_path: Path) -> None:
    nodes = [
        node("Flatten", "x", "f"),
        node("Gemm", "f a.weight", "g"),
        node("MatMul", "g b.weight", "h"),
        node("Gemm", "h fc.weight number", "y", transB=1),
    ]
    tensors = {
        "a.weight": 0.1 * array(144, 5),
        "b.weight": array(5, 4),
        "fc.weight": array(3, 4),
        "number": np.ones(1, np.float32),
    }
    found = from_onnx(file_of(tmp_path / "a.onnx", nodes, tensors))
    assert [each.name for each in found.network.layers] == ["a", "b", "fc"]
    assert np.array_equal(found.parameters.views["a.weights"], tensors["a.weight"].T)
    assert found.parameters.views["fc.bias"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("Conv", "x c.weight", "m", group=2, pads=[0, 0, 1, 0])],
            "padding .0, 0, 1, 0.",
        ),
        ([node("Conv", "x x", "m")], "input 'x' is computed, expected a constant"),
        ([node("Gemm", "x c.bias", "m")], r"weights of shape \(8,\), expected 2 axes"),
        ([node("Gemm", "x w", "m", alpha=2.0)], "alpha = 2.0, expected 1.0"),
        ([node("MatMul", "x w", "m")], r"shape \(2, 4, 6, 6\), expected flattened maps"),
        ([node("MaxPool", "x", "m", kernel_shape=[2, 2], dilations=[2, 2])], "dilations = .2, 2."),
        ([node("MaxPool", "x", "m", kernel_shape=[2])], "kernel_shape = .2., expected two numbers"),
        ([node("ReduceMean", "x axes", "m")], r"over axes \[1\], expected whole maps"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_node(
    nodes: list[Any], message: str, tmp_path: Path
) -> None:
    tensors = {**CONV, "w": array(6, 6), "axes": np.array([1])}
    with pytest.raises(NetworkError, match=rf"a.onnx: node 'm' \(\w+\): .*{message}"):
        _found(nodes, tensors, tmp_path)
