"""The forms that a value takes in PyTorch where a network has one: maps, flattened or not."""

from __future__ import annotations

import math
from typing import Final

from knltrain.network.layers import ChannelProduct, Dense, GlobalAveragePooling, Layer, Shape

WITHOUT_EFFECT: Final = frozenset({"alias", "clone", "contiguous"})
RESHAPING: Final = frozenset({"flatten", "reshape", "squeeze", "unsqueeze", "view"})


def form_behind(layer: Layer, before: str, shape: Shape) -> str:
    """The form of a layer's output of `shape`, whose first input has the form `before`."""
    if isinstance(layer, GlobalAveragePooling | Dense):
        return "vector" if len(shape) == 1 else "mean"
    return "map" if isinstance(layer, ChannelProduct) else before


def form_reshaped(before: str, shape: Shape, wanted: Shape) -> str | None:
    """The form of a value of `shape` when reshaped to `wanted`; None if a network has no such."""
    if shape == wanted:
        return before
    if math.prod(shape) != math.prod(wanted):  # images go into one another
        return None
    if len(wanted) == 1:
        return {"map": "flat", "mean": "vector"}.get(before)
    is_mean = before in ("mean", "vector") and math.prod(wanted) == wanted[0]
    return "mean" if is_mean else None
