"""What each layer of ours is in Caffe: its type, its settings and its arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import numpy as np

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.windows import caffe_size
from knltrain.network.layers import (
    Activation,
    Addition,
    Affine,
    AveragePooling,
    BatchNormalisation,
    ChannelProduct,
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePooling,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    Pair,
    PReLU,
    ReLU,
    Shape,
    StochasticDepth,
    WithinChannelNormalisation,
)
from knltrain.vectors import FloatArray

Settings: TypeAlias = "Mapping[str, int | float | bool | str | list[int]]"
"""A list is a field that is repeated."""
Views: TypeAlias = Mapping[str, FloatArray]
"""A layer's parameters by role: "weights", "bias", ..."""


@final
@dataclass(frozen=True, slots=True)
class Form:
    """A layer of Caffe: its type, the message of its settings, and its arrays.

    `note` says which Caffe alone reads it. A `suffix` makes it another layer behind that of ours.
    `tops` are suffixes, too: nothing reads those that are not empty.
    """

    kind: str
    message: str = ""
    settings: Settings | None = None
    blobs: tuple[FloatArray, ...] = ()
    suffix: str = ""
    note: str = ""
    tops: tuple[str, ...] = ("",)


_RELU6: Final = 6.0
_NOT_OPENCVS: Final = ("avg_include_pad", "k")
"""Settings that OpenCV ignores."""


def forms_of(layer: Layer, inputs: tuple[Shape, ...], views: Views) -> tuple[Form, ...]:
    """The layers of Caffe that compute a layer in tests, one behind the other; none: nothing.

    Raises NetworkError for what Caffe has not.
    """
    make = _FORMS.get(type(layer))
    if make is None:
        raise refused(layer, f"{type(layer).__name__} is not there")
    return make(layer, inputs, views)


def for_opencv(layer: Layer, form: Form) -> Form:
    """The form that OpenCV reads, where it is another: it has fields of its own.

    Raises NetworkError for what OpenCV does not read.
    """
    settings = dict(form.settings or {})
    if settings.pop("round_mode", None):
        return Form(form.kind, form.message, {**settings, "ceil_mode": False}, form.blobs)
    if form.kind == "Clip" and settings["max"] == _RELU6:
        return Form("ReLU6")
    if form.kind == "Clip" or not settings.keys().isdisjoint(_NOT_OPENCVS):
        raise NetworkError(
            f"layer '{layer.name}': OpenCV does not read {form.kind} with "
            f"{', '.join(f'{key}: {value}' for key, value in settings.items())} of a .prototxt: "
            "expected an .onnx file, or to leave out --opencv"
        )
    return form


def refused(layer: Layer, what: str) -> NetworkError:
    """The error of what Caffe cannot compute."""
    return NetworkError(
        f"layer '{layer.name}': in Caffe {what}: expected layers that docs/caffe.md lists; an "
        ".onnx file has them"
    )


def _convolution(layer: Convolution, _inputs: tuple[Shape, ...], views: Views) -> tuple[Form, ...]:
    window = layer.window
    settings = {
        "num_output": layer.filters,
        **_sides("kernel_size", "kernel", window.kernel),
        **({} if window.stride == (1, 1) else _sides("stride", "stride", window.stride)),
        **({} if window.padding == (0, 0) else _sides("pad", "pad", window.padding)),
        **({} if layer.groups == 1 else {"group": layer.groups}),
        **({} if layer.bias else {"bias_term": False}),
    }
    if window.dilation[0] != window.dilation[1]:
        raise refused(layer, f"dilation {window.dilation} has no pair of names")
    if window.dilation != (1, 1):
        settings["dilation"] = window.dilation[0]
    return (Form("Convolution", "convolution_param", settings, _weighted(views)),)


def _dense(layer: Dense, _inputs: tuple[Shape, ...], views: Views) -> tuple[Form, ...]:
    settings = {"num_output": layer.units, **({} if layer.bias else {"bias_term": False})}
    return (Form("InnerProduct", "inner_product_param", settings, _weighted(views)),)


def _weighted(views: Views) -> tuple[FloatArray, ...]:
    return tuple(views[role] for role in ("weights", "bias") if role in views)


def _sides(both: str, stem: str, pair: Pair) -> dict[str, int]:
    lines, pixels = pair
    return {both: lines} if lines == pixels else {f"{stem}_h": lines, f"{stem}_w": pixels}


def _batch_normalisation(
    layer: BatchNormalisation, _inputs: tuple[Shape, ...], views: Views
) -> tuple[Form, ...]:
    """Caffe keeps sums, whose weight tends to 1 / momentum: here to a power of 2, to stay exact."""
    weight = np.float32(2 ** round(math.log2(1 / layer.momentum))) if layer.momentum else 1
    sums = (views["running_mean"] * weight, views["running_variance"] * weight)
    settings = {"eps": layer.epsilon, "moving_average_fraction": 1 - layer.momentum}
    if layer.frozen:
        settings["use_global_stats"] = True
    return (
        Form("BatchNorm", "batch_norm_param", settings, (*sums, np.array([weight], np.float32))),
        Form(
            "Scale",
            "scale_param",
            {"bias_term": True},
            (views["scale"], views["shift"]),
            suffix="/scale",
        ),
    )


def _local_response(
    layer: LocalResponseNormalisation, _inputs: tuple[Shape, ...], _views: Views
) -> tuple[Form, ...]:
    settings = {"local_size": layer.size, "alpha": layer.alpha, "beta": layer.beta}
    if layer.bias != 1:
        settings["k"] = layer.bias
    return (Form("LRN", "lrn_param", settings),)


def _within_channel(
    layer: WithinChannelNormalisation, _inputs: tuple[Shape, ...], _views: Views
) -> tuple[Form, ...]:
    settings = {"local_size": layer.size, "alpha": layer.alpha, "beta": layer.beta}
    return (Form("LRN", "lrn_param", {"norm_region": "WITHIN_CHANNEL", **settings}),)


def _parametric_rectifier(
    layer: PReLU, _inputs: tuple[Shape, ...], views: Views
) -> tuple[Form, ...]:
    """A shared slope is a blob without axes."""
    if not layer.shared:
        return (Form("PReLU", blobs=(views["slopes"],)),)
    slope = views["slopes"].reshape(())
    return (Form("PReLU", "prelu_param", {"channel_shared": True}, (slope,)),)


def _rectifier(layer: ReLU, _inputs: tuple[Shape, ...], _views: Views) -> tuple[Form, ...]:
    if layer.ceiling == math.inf:
        settings = {"negative_slope": layer.slope} if layer.slope else None
        return (Form("ReLU", "relu_param", settings),)
    if layer.slope:
        raise refused(layer, f"no rectifier has a slope ({layer.slope}) and a ceiling")
    note = "Clip is of BVLC's Caffe since 2019"
    return (Form("Clip", "clip_param", {"min": 0.0, "max": layer.ceiling}, note=note),)


_ACTIVATIONS: Final = {
    "sigmoid": Form("Sigmoid"),
    "silu": Form("Swish", note="Swish is of BVLC's Caffe since 2018, and of Intel's"),
    "tanh": Form("TanH"),
}


def _activation(layer: Activation, _inputs: tuple[Shape, ...], _views: Views) -> tuple[Form, ...]:
    if layer.function not in _ACTIVATIONS:
        raise refused(layer, f"{layer.function} is not there")
    return (_ACTIVATIONS[layer.function],)


def _affine(layer: Affine, _inputs: tuple[Shape, ...], _views: Views) -> tuple[Form, ...]:
    return (Form("Power", "power_param", {"scale": layer.factor, "shift": layer.offset}),)


def _dropout(layer: Dropout, _inputs: tuple[Shape, ...], _views: Views) -> tuple[Form, ...]:
    return (Form("Dropout", "dropout_param", {"dropout_ratio": layer.rate}),)


def _pooling(
    layer: MaxPooling | AveragePooling, inputs: tuple[Shape, ...], _views: Views
) -> tuple[Form, ...]:
    window, note = layer.window, ""
    sizes = window.positions(inputs[0][0], inputs[0][1], layer.ceil)
    settings: dict[str, int | float | bool | str] = {
        "pool": "AVE" if isinstance(layer, AveragePooling) else "MAX",
        **_sides("kernel_size", "kernel", window.kernel),
        **({} if window.stride == (1, 1) else _sides("stride", "stride", window.stride)),
        **({} if window.padding == (0, 0) else _sides("pad", "pad", window.padding)),
    }
    rounded = [_caffe_sizes(layer, inputs[0], up) for up in (True, False)]
    if sizes not in rounded:
        raise refused(layer, f"its windows on {inputs[0][:2]} pixels are {rounded[0]}, not {sizes}")
    if sizes != rounded[0]:
        settings["round_mode"] = "FLOOR"
        note = "round_mode is of BVLC's Caffe since 2018"
    if isinstance(layer, AveragePooling) and window.padding != (0, 0) and not layer.counts_padding:
        settings["avg_include_pad"] = False
        note = "avg_include_pad is of Intel's Caffe"
    return (Form("Pooling", "pooling_param", settings, note=note),)


def _caffe_sizes(layer: MaxPooling | AveragePooling, shape: Shape, rounds_up: bool) -> Pair:
    window = layer.window
    lines, pixels = (
        caffe_size(
            shape[axis],
            window.kernel[axis],
            window.stride[axis],
            window.padding[axis],
            any(window.padding),
            rounds_up,
        )
        for axis in (0, 1)
    )
    return lines, pixels


def _channel_product(
    _layer: ChannelProduct, _inputs: tuple[Shape, ...], _views: Views
) -> tuple[Form, ...]:
    return (Form("Scale", "scale_param", {"axis": 0}),)


def _channel_scale(
    _layer: ChannelScale, _inputs: tuple[Shape, ...], views: Views
) -> tuple[Form, ...]:
    return (Form("Scale", "scale_param", {"bias_term": False}, (views["scale"],)),)


def _channel_shuffle(
    layer: ChannelShuffle, _inputs: tuple[Shape, ...], _views: Views
) -> tuple[Form, ...]:
    note = "ShuffleChannel is of ShuffleNet's Caffe"
    settings = {"group": layer.groups}
    return (Form("ShuffleChannel", "shuffle_channel_param", settings, note=note),)


def _channel_slice(
    layer: ChannelSlice, inputs: tuple[Shape, ...], _views: Views
) -> tuple[Form, ...]:
    """The channels before and behind it are tops, too."""
    channels = inputs[0][-1]
    points = [each for each in (layer.first, layer.last) if 0 < each < channels]
    tops = ["/before"] * (layer.first > 0) + [""] + ["/behind"] * (layer.last < channels)
    return (Form("Slice", "slice_param", {"slice_point": points}, tops=tuple(tops)),)


_FORMS: Final[Mapping[type[Layer], Callable[[Any, tuple[Shape, ...], Views], tuple[Form, ...]]]] = {
    Activation: _activation,
    Addition: lambda *_: (Form("Eltwise", "eltwise_param", {"operation": "SUM"}),),
    Affine: _affine,
    AveragePooling: _pooling,
    BatchNormalisation: _batch_normalisation,
    ChannelProduct: _channel_product,
    ChannelScale: _channel_scale,
    ChannelShuffle: _channel_shuffle,
    ChannelSlice: _channel_slice,
    Concatenation: lambda *_: (Form("Concat"),),
    Convolution: _convolution,
    Dense: _dense,
    Dropout: _dropout,
    Flatten: lambda *_: (Form("Flatten"),),
    GlobalAveragePooling: lambda *_: (
        Form("Pooling", "pooling_param", {"pool": "AVE", "global_pooling": True}),
    ),
    LocalResponseNormalisation: _local_response,
    MaxPooling: _pooling,
    PReLU: _parametric_rectifier,
    ReLU: _rectifier,
    StochasticDepth: lambda *_: (),
    WithinChannelNormalisation: _within_channel,
}
