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
from knltrain.network.layers import Dense, Layer, Shape


def _terms(layer: Dense, shape: Shape) -> TorchTerms:
    arguments = {"in_features": math.prod(shape), "out_features": layer.units, "bias": layer.bias}
    linear = TorchModule("Linear", arguments)
    return TorchTerms((TorchModule("Flatten"), linear) if len(shape) == 3 else (linear,))


def _read(call: Call) -> Layer:
    units, _ = call.shapes["weight"]
    return Dense(call.name, units, call.arguments["bias"] is not None, inputs=call.inputs)


TERMS: Final[Terms] = {Dense: _terms}
READERS: Final[Readers] = {"linear": Reader(_read, ("flat", "vector"), WEIGHTED)}
