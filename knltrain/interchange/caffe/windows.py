"""Caffe's convolutions, dense layers and poolings as layers of ours."""

from __future__ import annotations

import math
from typing import Final

from knltrain.interchange.caffe.fillers import constant, initialiser, multipliers
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.walk import Walk
from knltrain.network.layers import (
    AveragePooling,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    Multipliers,
    Pair,
    Shape,
    Window,
)

_POOLS: Final = {"MAX": "MAX", "AVE": "AVE", "STOCHASTIC": "STOCHASTIC"}
_ROUNDS: Final = {"CEIL": True, "FLOOR": False}


def convolution(layer: NetLayer, walk: Walk) -> None:
    """A convolution; on a vector one of 1x1, which is a dense layer."""
    told, blob = layer.message.message("convolution_param"), layer.only()
    _check_axis(told)
    kernel = _pair(told, "kernel_size", "kernel", None)
    stride, padding = _pair(told, "stride", "stride", 1), _pair(told, "pad", "pad", 0)
    dilation, groups = _pair(told, "dilation", "", 1), told.whole("group", 1)
    filters, has_bias = _count(told, "num_output"), told.flag("bias_term", True)
    is_vector = len(blob.shape) == 1 and (kernel, padding, groups) == ((1, 1), (0, 0), 1)
    channels = blob.shape[0] if is_vector else layer.only(is_map=True).shape[2]
    weights, bias_value = _first_values(
        told, (filters, channels // max(groups, 1), *kernel), has_bias, walk
    )
    factors = _factors(layer, walk, has_bias)
    if is_vector:
        dense = Dense(layer.name, filters, has_bias, weights, bias_value, *factors)
        walk.add(layer, dense, (blob,))
        return
    walk.add(
        layer,
        Convolution(
            layer.name,
            filters,
            kernel,
            stride,
            padding,
            dilation,
            groups,
            has_bias,
            weights,
            bias_value,
            *factors,
        ),
        (blob,),
    )


def inner_product(layer: NetLayer, walk: Walk) -> None:
    """A dense layer."""
    told, blob = layer.message.message("inner_product_param"), layer.only()
    _check_axis(told)
    if told.flag("transpose", False):
        raise layer.refused(
            "transpose: true stores weights (inputs, outputs): knltrain has (outputs, inputs); "
            "leave it out",
            told.line_of("transpose"),
        )
    units, has_bias = _count(told, "num_output"), told.flag("bias_term", True)
    shape = (units, math.prod(blob.shape))
    weights, bias_value = _first_values(told, shape, has_bias, walk)
    factors = _factors(layer, walk, has_bias)
    walk.add(layer, Dense(layer.name, units, has_bias, weights, bias_value, *factors), (blob,))


def pooling(layer: NetLayer, walk: Walk) -> None:
    """A pooling, whose sizes are Caffe's: rounded up, unless they say otherwise."""
    told, blob = layer.message.message("pooling_param"), layer.only(is_map=True)
    kind = told.choice("pool", "MAX", _POOLS)
    if kind == "STOCHASTIC":
        raise layer.refused(
            "pool: STOCHASTIC is not there (nor in Caffe on a CPU): expected MAX or AVE",
            told.line_of("pool"),
        )
    told.one("kernel_size"), told.one("stride"), told.one("pad")
    counts_padding = told.flag("avg_include_pad", True)
    stride, padding = _pair(told, "stride", "stride", 1), _pair(told, "pad", "pad", 0)
    rounds_up = told.choice("round_mode", told.flag("ceil_mode", True), _ROUNDS)
    height, width, _ = blob.shape
    if told.flag("global_pooling", False):
        kernel = (height, width)
        if (stride, padding) != ((1, 1), (0, 0)) or told.line_of("kernel_size") is not None:
            raise layer.refused("global_pooling with a window: leave out its size, stride and pad")
        if kind == "AVE":
            walk.add(layer, GlobalAveragePooling(layer.name), (blob,))
            return
    else:
        kernel = _pair(told, "kernel_size", "kernel", None)
    window = Window(layer.name, kernel, stride, padding)
    sizes = window.positions(height, width, rounds_up)
    expected = tuple(
        caffe_size(size, kernel[axis], stride[axis], padding[axis], any(padding), rounds_up)
        for axis, size in enumerate((height, width))
    )
    if sizes != expected:
        raise layer.refused(
            f"Caffe's sizes are {expected}, with windows that lie outside the {height} x {width} "
            f"image: knltrain leaves these out, which gives {sizes}; expected a stride of at most "
            f"the kernel"
        )
    ceil = sizes != window.positions(height, width)
    ours: Layer = MaxPooling(layer.name, kernel, stride, padding, ceil)
    if kind == "AVE":
        ours = AveragePooling(layer.name, kernel, stride, padding, ceil, counts_padding)
    walk.add(layer, ours, (blob,))


def caffe_size(
    size: int, kernel: int, stride: int, pad: int, is_padded: bool, rounds_up: bool
) -> int:
    """The output's size in Caffe (pooling_layer.cpp)."""
    free = size + 2 * pad - kernel
    found = (-(-free // stride) if rounds_up else free // stride) + 1
    return found - 1 if is_padded and (found - 1) * stride >= size + pad else found


def _check_axis(told: Message) -> None:
    if told.whole("axis", 1) != 1:
        raise told.error(
            told.line_of("axis") or told.line,
            f"axis: {told.whole('axis', 1)} is not there: expected 1, the channels",
        )


def _count(told: Message, name: str) -> int:
    count = told.whole(name, 0)
    if count < 1:
        raise told.error(
            told.line_of(name) or told.line, f"{name} = {count}: expected it, at least 1"
        )
    return count


def _pair(told: Message, name: str, stem: str, default: int | None) -> Pair:
    """Lines and pixels: of `name`, given once or twice, or of `stem`_h and _w."""
    both = told.wholes(name)
    lines, pixels = (told.whole(f"{stem}_{end}", None) if stem else None for end in "hw")
    line = told.line_of(name) or told.line_of(f"{stem}_h") or told.line_of(f"{stem}_w") or told.line
    if (lines is not None or pixels is not None) and not both:
        if lines is None or pixels is None:
            if default is None:
                raise told.error(line, f"one of {stem}_h and {stem}_w: expected both")
            return (default if lines is None else lines, default if pixels is None else pixels)
        return lines, pixels
    if not both and default is not None:
        return default, default
    if len(both) not in (1, 2) or lines is not None or pixels is not None:
        raise told.error(
            line,
            f"{name} of {len(both)} numbers: expected one for both directions, or two"
            + (f", or {stem}_h and {stem}_w" if stem else ""),
        )
    return both[0], both[-1]


def _first_values(told: Message, shape: Shape, has_bias: bool, walk: Walk) -> tuple[str, float]:
    """The initialiser of weights, and the value that a bias starts with."""
    if told.line_of("weight_filler") is None:
        walk.note(
            told, told.line, "no weight_filler: its weights start at 0, as in Caffe; give weights"
        )
    weights = initialiser(told.message("weight_filler"), shape)
    bias_filler = told.message("bias_filler")
    return weights, constant(bias_filler) if has_bias else 0.0


def _factors(layer: NetLayer, walk: Walk, has_bias: bool) -> tuple[Multipliers, Multipliers]:
    found = multipliers(layer, walk, 1 + has_bias)
    return found[0], found[1] if has_bias else Multipliers()
