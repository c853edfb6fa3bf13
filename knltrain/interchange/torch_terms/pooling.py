"""Poolings."""

from __future__ import annotations

from typing import Final

from knltrain.interchange.torch_terms.terms import (
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
)
from knltrain.network.layers import (
    AdaptiveAveragePooling,
    AveragePooling,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    Shape,
)


def _pooling(layer: MaxPooling | AveragePooling, _shape: Shape) -> TorchTerms:
    window = layer.window
    arguments = {
        "kernel_size": window.kernel,
        "stride": window.stride,
        "padding": window.padding,
        "ceil_mode": layer.ceil,
    }
    if isinstance(layer, MaxPooling):
        return TorchTerms((TorchModule("MaxPool2d", arguments),))
    arguments["count_include_pad"] = layer.counts_padding
    return TorchTerms((TorchModule("AvgPool2d", arguments),))


def _adaptive_pooling(layer: AdaptiveAveragePooling, _shape: Shape) -> TorchTerms:
    size = {"output_size": (layer.lines, layer.pixels)}
    return TorchTerms((TorchModule("AdaptiveAvgPool2d", size),))


def _global_pooling(_layer: GlobalAveragePooling, _shape: Shape) -> TorchTerms:
    return TorchTerms(
        (TorchModule("AdaptiveAvgPool2d", {"output_size": 1}), TorchModule("Flatten"))
    )


def _read_max(call: Call) -> Layer:
    call.expect(dilation=1)
    kernel = call.pair("kernel_size")
    return MaxPooling(
        call.name,
        kernel,
        call.pair("stride", kernel),
        call.pair("padding"),
        call.arguments["ceil_mode"],
        inputs=call.inputs,
    )


def _read_average(call: Call) -> Layer:
    kernel, padding = call.pair("kernel_size"), call.pair("padding")
    call.expect(divisor_override=None)
    return AveragePooling(
        call.name,
        kernel,
        call.pair("stride", kernel),
        padding,
        call.arguments["ceil_mode"],
        call.arguments["count_include_pad"] or padding == (0, 0),
        inputs=call.inputs,
    )


def _read_adaptive(call: Call) -> Layer | None:
    wanted, shape = call.pair("output_size"), call.shapes["self"][1:]
    if wanted == (1, 1):
        return GlobalAveragePooling(call.name, inputs=call.inputs)
    if wanted == shape:
        return None
    if any(size % parts for size, parts in zip(shape, wanted, strict=True)):
        return AdaptiveAveragePooling(call.name, *wanted, inputs=call.inputs)
    window = (shape[0] // wanted[0], shape[1] // wanted[1])
    return AveragePooling(call.name, window, window, inputs=call.inputs)


def _read_mean(call: Call) -> Layer:
    axes, wanted = call.arguments.get("dim"), {"map": (2, 3), "map last": (1, 2)}[call.forms[0]]
    if tuple(sorted(axis % 4 for axis in axes or ())) != wanted:
        raise call.refused(f"a mean over axes {axes}, expected that of whole maps: dim = {wanted}")
    call.expect(dtype=None)
    return GlobalAveragePooling(call.name, inputs=call.inputs)


TERMS: Final[Terms] = {
    AdaptiveAveragePooling: _adaptive_pooling,
    AveragePooling: _pooling,
    GlobalAveragePooling: _global_pooling,
    MaxPooling: _pooling,
}
READERS: Final[Readers] = {
    "adaptive_avg_pool2d": Reader(_read_adaptive),
    "avg_pool2d": Reader(_read_average),
    "max_pool2d": Reader(_read_max),
    "mean": Reader(_read_mean, ("map", "map last")),
}
