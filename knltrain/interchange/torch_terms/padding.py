"""Padding of feature maps, and its place in the convolution or pooling behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from knltrain.interchange.torch_terms.terms import (
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
)
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Convolution,
    Layer,
    MaxPooling,
    Padding,
    Shape,
)

_OF_MAPS: Final = 4
"""Sides of maps; PyTorch's list may be longer, with zeros for channels and images."""


def _padding(layer: Padding, _shape: Shape) -> TorchTerms:
    above, below, left, right = layer.sides
    # Not the least float32: it is no bfloat16, which autocast may make of the maps.
    value = -math.inf if layer.lowest else layer.value
    arguments = {"padding": (left, right, above, below), "value": value}
    return TorchTerms((TorchModule("ConstantPad2d", arguments),))


def _read(call: Call) -> Layer | None:
    mode, value = call.arguments.get("mode", "constant"), call.arguments.get("value")
    if mode != "constant":
        raise call.refused(f"padding of mode {mode!r}, expected 'constant'")
    value = 0.0 if value is None else value
    lowest = Padding(call.name, lowest=True).value
    if not isinstance(value, int | float) or not (value == 0 or value <= lowest):
        raise call.refused(f"padding with {value}, expected 0 or -inf")
    given = list(call.arguments["pad"])
    left, right, above, below = (given + [0] * _OF_MAPS)[:_OF_MAPS]
    sides = above, below, left, right
    if any(given[_OF_MAPS:]) or min(sides) < 0:
        raise call.refused(
            f"padding by {given}, expected 0 or more lines and pixels around maps: (left, right, "
            "above, below)"
        )
    if not any(sides):
        return None
    return Padding(call.name, *sides, lowest=value != 0, inputs=call.inputs)


def without_paddings(layers: Iterable[Layer], outputs: Iterable[Output]) -> tuple[Layer, ...]:
    """The layers, with paddings in the windows of those behind them where that is the same.

    That is zeros before a convolution, or the lowest values before a max pooling without padding of
    its own, as many on both sides. A padding that others read, too, stays.
    """
    found, ends = list(layers), {output.layer for output in outputs}
    for layer in [each for each in found if isinstance(each, Padding)]:
        takers = [each for each in found if layer.name in each.inputs]
        if len(takers) != 1 or layer.name in ends:
            continue
        folded = _folded(layer, takers[0])
        if folded is not None:
            found[found.index(takers[0])] = replace(folded, inputs=layer.inputs)
            found.remove(layer)
    return tuple(found)


def _folded(padding: Padding, taker: Layer) -> Any:
    """The layer with the padding within it; None where it cannot be."""
    above, below, left, right = padding.sides
    same = (above, left) == (below, right)
    if isinstance(taker, Convolution) and same and not padding.lowest:
        before = taker.window.padding
        return replace(taker, padding=(before[0] + above, before[1] + left))
    if not isinstance(taker, MaxPooling) or not padding.lowest or taker.padding != 0 or taker.ceil:
        return None
    kernel = taker.window.kernel
    if same and above <= kernel[0] // 2 and left <= kernel[1] // 2:
        return replace(taker, padding=(above, left))
    return None


TERMS: Final[Terms] = {Padding: _padding}
READERS: Final[Readers] = {"pad": Reader(_read)}
