"""ONNX's operators that tell channels apart, or lay them elsewhere, as layers of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from knltrain.interchange.onnx.graph import Node
from knltrain.interchange.onnx.operators import Reader
from knltrain.interchange.onnx.reading import Reading
from knltrain.interchange.onnx.values import CHANNEL_AXES, EVERY, Form, Value
from knltrain.network.layers import ChannelSlice, LayerNormalisation, Padding, PReLU

_TRANSPOSED: Final[Mapping[tuple[Form, tuple[int, ...]], Form]] = {
    ("map", (0, 2, 3, 1)): "map last",
    ("mean", (0, 2, 3, 1)): "mean last",
    ("map last", (0, 3, 1, 2)): "map",
    ("mean last", (0, 3, 1, 2)): "mean",
    ("groups", (0, 2, 1, 3, 4)): "shuffled",
    ("shuffled", (0, 2, 1, 3, 4)): "groups",
}


def _transpose(node: Node, reading: Reading) -> None:
    value = reading.value(node, 0, *EVERY)
    dims = value.dims(reading.graph.images[0])
    order = tuple(node.settings.get("perm", range(len(dims))[::-1]))
    if order == tuple(range(len(dims))):
        reading.same(node, value)
        return
    if (value.form, order) not in _TRANSPOSED:
        known = " or ".join(str(list(each)) for form, each in _TRANSPOSED if form == value.form)
        raise node.refused(
            f"perm = {list(order)} of shape {dims}, expected {known or 'no other order'}"
        )
    reading.same(node, replace(value, form=_TRANSPOSED[value.form, order]))


def _prelu(node: Node, reading: Reading) -> None:
    slopes, value = reading.constant(node, 1), reading.value(node, 0)
    assert slopes is not None
    if slopes.size != 1:
        value = reading.unflattened(value)
        if not value.is_by_channel(slopes.shape):
            raise node.refused(
                f"slopes of shape {slopes.shape}, expected one number, or one for each channel"
            )
    name = reading.name_of(node, 1)
    reading.add(node, PReLU(name, slopes.size == 1), (value,), value.form)
    reading.tensors[f"{name}.slopes"] = slopes


def _layer_normalisation(node: Node, reading: Reading) -> None:
    if any(node.outputs[1:]):
        raise node.refused("means and deviations, expected the values alone")
    value = reading.value(node, 0, "map last", "mean last", "vector", "flat")
    value = reading.unflattened(value)
    axes, channels = len(value.dims(1)), value.shape[-1]
    if node.settings.get("axis", -1) not in (-1, axes - 1):
        raise node.refused(f"axis = {node.settings['axis']}, expected -1, the channels")
    scale, shift = reading.constant(node, 1), reading.constant(node, 2)
    assert scale is not None
    shift = np.zeros(channels, np.float32) if shift is None else shift
    for array in (scale, shift):
        if array.shape != (channels,):
            raise node.refused(f"factors of shape {array.shape}, expected ({channels},)")
    name = reading.name_of(node, 1)
    ours = LayerNormalisation(name, node.settings.get("epsilon", 1e-5))
    reading.add(node, ours, (value,), value.form)
    reading.tensors |= {f"{name}.scale": scale, f"{name}.shift": shift}


def _slice(node: Node, reading: Reading) -> None:
    """Of channels; whole axes may be sliced, too."""
    value = reading.value(node, 0)
    dims = value.dims(reading.graph.images[0])
    starts, ends = reading.numbers(node, "starts", 1), reading.numbers(node, "ends", 2)
    axes, steps = reading.numbers(node, "axes", 3), reading.numbers(node, "steps", 4)
    starts, ends = starts or [], ends or []
    axes = list(range(len(starts))) if axes is None else axes
    steps = steps or [1] * len(axes)
    if len({*map(len, (starts, ends, axes, steps))}) != 1:
        raise node.refused(f"starts {starts}, ends {ends}, axes {axes}, expected as many of each")
    bounds = [(0, size) for size in dims]
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        if step != 1 or not -len(dims) <= axis < len(dims):
            raise node.refused(f"axis {axis} by steps of {step}, expected steps of 1")
        bounds[axis] = slice(first, last).indices(dims[axis])[:2]
    first, last = bounds.pop(channel_axis(value))
    others = [size for axis, size in enumerate(dims) if axis != channel_axis(value)]
    if bounds != [(0, size) for size in others]:
        raise node.refused(f"a part of shape {dims}, expected one of channels alone")
    _add_parts(node, reading, value, [first, last])


def _split(node: Node, reading: Reading) -> None:
    value, count = reading.value(node, 0), len(node.outputs)
    axes = len(value.dims(1))
    axis = node.settings.get("axis", 0)
    if axis not in (channel_axis(value), channel_axis(value) - axes):
        raise node.refused(f"axis = {axis}, expected {channel_axis(value)}, the channels")
    channels = value.dims(1)[channel_axis(value)]
    sizes = reading.numbers(node, "split", 1)
    if sizes is None:
        most = -(-channels // count)
        sizes = [most] * (count - 1) + [channels - most * (count - 1)]
    if len(sizes) != count or sum(sizes) != channels or min(sizes) < 1:
        raise node.refused(f"parts of {sizes} channels, expected {count} of {channels} together")
    _add_parts(node, reading, value, [0, *accumulate(sizes)])


def _add_parts(node: Node, reading: Reading, value: Value, ends: Sequence[int]) -> None:
    """The channels between each two ends are an output."""
    channels = value.dims(1)[channel_axis(value)]
    if list(ends) == [0, channels]:
        reading.same(node, value)
        return
    value = reading.unflattened(value)
    for place, (first, last) in enumerate(pairwise(ends)):
        if first >= last:
            raise node.refused(f"channels {first} to {last}, expected one or more")
        ours = ChannelSlice(reading.name_of(node), first, last)
        reading.add(node, ours, (value,), value.form, place)


def channel_axis(value: Value) -> int:
    """The axis of channels, or of units."""
    return CHANNEL_AXES.get(value.form, 1)


def _pad(node: Node, reading: Reading) -> None:
    value, mode = reading.value(node, 0, "map"), node.settings.get("mode", "constant")
    pads, given = reading.numbers(node, "pads", 1), reading.constant(node, 2)
    axes = reading.numbers(node, "axes", 3) or [0, 1, 2, 3]
    if given is not None and given.size != 1:
        raise node.refused(f"values of shape {given.shape}, expected one number")
    number = float(node.settings.get("value", 0.0) if given is None else given.ravel()[0])
    if mode != "constant" or not (number == 0 or number <= Padding("", lowest=True).value):
        raise node.refused(f"mode '{mode}' with {number}, expected 'constant' with 0 or -inf")
    found = dict.fromkeys(range(4), (0, 0))
    if pads is None or len(pads) != 2 * len(axes):
        raise node.refused(f"padding {pads}, expected two numbers for each axis")
    for place, axis in enumerate(axes):
        found[axis % 4] = (pads[place], pads[place + len(axes)])
    sides = (*found[2], *found[3])
    if any((*found[0], *found[1])) or min(sides) < 0:
        raise node.refused(f"padding {pads}, expected 0 or more lines and pixels around maps")
    if not any(sides):
        reading.same(node, value)
        return
    reading.add(node, Padding(reading.name_of(node), *sides, lowest=number != 0), (value,))


CHANNELS: Final[Mapping[str, Reader]] = {
    "LayerNormalization": _layer_normalisation,
    "PRelu": _prelu,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
}
"""Types of nodes -> what becomes of them."""
