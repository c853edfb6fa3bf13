"""Convolutions."""

from __future__ import annotations

from typing import Final

from knltrain.interchange.torch_terms.terms import (
    WEIGHTED,
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
)
from knltrain.network.layers import Convolution, Dense, Layer, Pair, Shape


def _terms(layer: Convolution, shape: Shape) -> TorchTerms:
    window = layer.window
    arguments = {
        "in_channels": shape[2],
        "out_channels": layer.filters,
        "kernel_size": window.kernel,
        "stride": window.stride,
        "padding": window.padding,
        "dilation": window.dilation,
        "groups": layer.groups,
        "bias": layer.bias,
    }
    return TorchTerms((TorchModule("Conv2d", arguments),))


def _read(call: Call) -> Layer:
    filters, _, *kernel = call.shapes["weight"]
    if len(kernel) != 2:
        raise call.refused(f"weight of shape {call.shapes['weight']}, expected (K, C, R, S)")
    if call.forms == ("mean",):
        return _of_means(call, filters, (kernel[0], kernel[1]))
    dilation = call.pair("dilation")
    padding = call.arguments["padding"]
    if padding == "valid":
        sides: Pair = (0, 0)
    elif padding == "same":
        spans = [dilation[axis] * (kernel[axis] - 1) for axis in (0, 1)]
        if any(span % 2 for span in spans):
            raise call.refused("padding = 'same' on one side more: expected an odd kernel")
        sides = (spans[0] // 2, spans[1] // 2)
    else:
        sides = call.pair("padding")
    return Convolution(
        call.name,
        filters,
        (kernel[0], kernel[1]),
        call.pair("stride"),
        sides,
        dilation,
        call.arguments["groups"],
        call.arguments["bias"] is not None,
        inputs=call.inputs,
    )


def _of_means(call: Call, filters: int, kernel: Pair) -> Layer:
    """A 1x1 convolution of 1x1 maps, as in squeeze-and-excitation blocks: a dense layer."""
    if kernel != (1, 1) or call.arguments["groups"] != 1:
        raise call.refused(
            f"kernel {kernel}, groups = {call.arguments['groups']} over means of maps, expected a "
            "1x1 convolution with groups = 1"
        )
    if call.arguments["padding"] not in ("same", "valid"):
        call.expect(padding=0)
    return Dense(call.name, filters, call.arguments["bias"] is not None, inputs=call.inputs)


TERMS: Final[Terms] = {Convolution: _terms}
READERS: Final[Readers] = {"conv2d": Reader(_read, ("map", "mean"), WEIGHTED)}
