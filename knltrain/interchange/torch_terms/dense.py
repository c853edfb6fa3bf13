"""Fully connected layers."""

from __future__ import annotations

import math
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
from knltrain.network.layers import Convolution, Dense, Flatten, Layer, Shape


def _terms(layer: Dense, shape: Shape) -> TorchTerms:
    arguments = {"in_features": math.prod(shape), "out_features": layer.units, "bias": layer.bias}
    linear = TorchModule("Linear", arguments)
    return TorchTerms((TorchModule("Flatten"), linear) if len(shape) == 3 else (linear,))


def _flatten(_layer: Flatten, _shape: Shape) -> TorchTerms:
    return TorchTerms((TorchModule("Flatten"),))


def _read(call: Call) -> Layer:
    """Of maps with channels last it is a 1x1 convolution."""
    units, _ = call.shapes["weight"]
    bias = call.arguments["bias"] is not None
    if call.forms == ("map last",):
        return Convolution(call.name, units, 1, bias=bias, inputs=call.inputs)
    return Dense(call.name, units, bias, inputs=call.inputs)


_TAKES: Final = ("flat", "vector", "map last", "mean last")
TERMS: Final[Terms] = {Dense: _terms, Flatten: _flatten}
READERS: Final[Readers] = {"linear": Reader(_read, _TAKES, WEIGHTED)}
