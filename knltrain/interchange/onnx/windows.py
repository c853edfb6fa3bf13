"""ONNX's convolutions, dense layers, normalisations and poolings as layers of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from knltrain.interchange.onnx.graph import Array, Node
from knltrain.interchange.onnx.operators import Reader
from knltrain.interchange.onnx.reading import Reading
from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    MaxPooling,
    Pair,
)


def _conv(node: Node, reading: Reading) -> None:
    value, weights = reading.value(node, 0, "map", "mean"), _weights(node, reading, 4)
    kernel = (weights.shape[2], weights.shape[3])
    bias = _bias(node, reading)
    groups = node.settings.get("group", 1)
    if value.form == "mean":
        if kernel != (1, 1) or groups != 1 or any(node.settings.get("pads", ())):
            raise node.refused(f"kernel {kernel} over means of maps, expected 1x1 in one group")
        _dense(node, reading, weights[:, :, 0, 0], bias, is_mean=True)
        return
    name = reading.name_of(node, 1)
    dilation = _pair(node, "dilations")
    ours = Convolution(
        name,
        weights.shape[0],
        kernel,
        _pair(node, "strides"),
        _padding(node, value.shape[:2], kernel, dilation),
        dilation,
        groups,
        bias is not None,
    )
    reading.add(node, ours, (value,))
    _keep(reading, name, weights, bias)


def _gemm(node: Node, reading: Reading) -> None:
    node.expect(transA=0, alpha=1.0, beta=1.0)
    weights = _weights(node, reading, 2)
    bias = _bias(node, reading)
    _dense(node, reading, weights if node.settings.get("transB") else weights.T, bias)


def _matmul(node: Node, reading: Reading) -> None:
    """Of maps whose channels come last it is a convolution of 1x1."""
    weights = _weights(node, reading, 2).T
    value = reading.value(node, 0)
    if value.form != "map last":
        _dense(node, reading, weights, None)
        return
    name = reading.name_of(node, 1)
    reading.add(node, Convolution(name, len(weights), 1, bias=False), (value,), value.form)
    _keep(reading, name, weights[:, :, None, None], None)


def _dense(
    node: Node, reading: Reading, weights: Array, bias: Array | None, is_mean: bool = False
) -> None:
    value = reading.value(node, 0, *(("mean",) if is_mean else ("flat", "vector")))
    name = reading.name_of(node, 1)
    if bias is not None and bias.size not in (1, len(weights)):
        raise node.refused(f"a bias of shape {bias.shape}, expected ({len(weights)},)")
    ours = Dense(name, len(weights), bias is not None)
    reading.add(node, ours, (value,), "mean" if is_mean else "vector")
    _keep(reading, name, weights, None if bias is None else np.broadcast_to(bias, len(weights)))


def _weights(node: Node, reading: Reading, axes: int) -> Array:
    found = reading.constant(node, 1)
    if found is None or found.ndim != axes:
        told = None if found is None else found.shape
        raise node.refused(f"weights of shape {told}, expected {axes} axes")
    return found


def _bias(node: Node, reading: Reading) -> Array | None:
    """The bias; None for zeros that stand for none, as PyTorch writes them."""
    found = reading.constant(node, 2)
    if found is not None and not found.any() and "bias" not in node.inputs[2].lower():
        return None
    return None if found is None else found.ravel()


def _keep(reading: Reading, name: str, weights: Array, bias: Array | None) -> None:
    reading.tensors[f"{name}.weights"] = weights
    if bias is not None:
        reading.tensors[f"{name}.bias"] = bias


def _batch_normalisation(node: Node, reading: Reading) -> None:
    node.expect(training_mode=0, spatial=1, is_test=1)
    value = reading.value(node, 0, "map")
    arrays = [reading.constant(node, place) for place in range(1, 5)]
    name = reading.name_of(node, 1)
    momentum = 1 - node.settings.get("momentum", 0.9)
    ours = BatchNormalisation(name, node.settings.get("epsilon", 1e-5), round(momentum, 6) or 0.1)
    reading.add(node, ours, (value,))
    roles = ("scale", "shift", "running_mean", "running_variance")
    for role, array in zip(roles, arrays, strict=True):
        assert array is not None
        reading.tensors[f"{name}.{role}"] = array


def _pooling(node: Node, reading: Reading) -> None:
    node.expect(storage_order=0, dilations=[1, 1])
    if len([each for each in node.outputs if each]) > 1:
        raise node.refused("places of the largest values, expected the values alone")
    value = reading.value(node, 0, "map")
    kernel = _pair(node, "kernel_shape")
    window = (kernel, _pair(node, "strides"), _padding(node, value.shape[:2], kernel, (1, 1)))
    ceil = bool(node.settings.get("ceil_mode", 0))
    name = reading.name_of(node)
    if node.kind == "MaxPool":
        reading.add(node, MaxPooling(name, *window, ceil), (value,))
        return
    counts = bool(node.settings.get("count_include_pad", 0)) or window[2] == (0, 0)
    reading.add(node, AveragePooling(name, *window, ceil, counts), (value,))


def _global_mean(node: Node, reading: Reading) -> None:
    keeps = node.kind == "GlobalAveragePool" or bool(node.settings.get("keepdims", 1))
    value = reading.value(node, 0, "map")
    if node.kind == "ReduceMean":
        axes = reading.numbers(node, "axes", 1)
        if axes is None or sorted(axis % 4 for axis in axes) != [2, 3]:
            raise node.refused(f"over axes {axes}, expected whole maps: 2 and 3")
    form = "mean" if keeps else "vector"
    reading.add(node, GlobalAveragePooling(reading.name_of(node)), (value,), form)  # type: ignore[arg-type]


def _global_max(node: Node, reading: Reading) -> None:
    value = reading.value(node, 0, "map")
    size = (value.shape[0], value.shape[1])
    reading.add(node, MaxPooling(reading.name_of(node), size, size), (value,))


def _pair(node: Node, key: str) -> Pair:
    found: Sequence[int] = node.settings.get(key, (1, 1))
    if len(found) != 2:
        raise node.refused(f"{key} = {list(found)}, expected two numbers")
    return found[0], found[1]


def _padding(node: Node, size: Sequence[int], kernel: Pair, dilation: Pair) -> Pair:
    """Padding of lines and pixels, which must be the same on both sides."""
    rule = node.settings.get("auto_pad", "NOTSET")
    pads = list(node.settings.get("pads", (0, 0, 0, 0)))
    if rule.startswith("SAME"):
        strides = _pair(node, "strides")
        wanted = [
            max(
                (-(-size[axis] // strides[axis]) - 1) * strides[axis]
                + dilation[axis] * (kernel[axis] - 1)
                + 1
                - size[axis],
                0,
            )
            for axis in (0, 1)
        ]
        pads = [each // 2 for each in wanted] + [-(-each // 2) for each in wanted]
    if len(pads) != 4 or pads[:2] != pads[2:]:
        raise node.refused(f"padding {pads}, expected the same on both sides")
    return pads[0], pads[1]


WINDOWS: Final[Mapping[str, Reader]] = {
    "AveragePool": _pooling,
    "BatchNormalization": _batch_normalisation,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_mean,
    "GlobalMaxPool": _global_max,
    "MatMul": _matmul,
    "MaxPool": _pooling,
    "ReduceMean": _global_mean,
}
"""Types of nodes -> what becomes of them."""
