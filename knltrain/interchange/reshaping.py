"""The forms that a value takes in PyTorch where a network has one: flattened or not, and so on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from knltrain.network.layers import (
    ChannelProduct,
    Dense,
    Flatten,
    GlobalAveragePooling,
    Layer,
    Shape,
)

WITHOUT_EFFECT: Final = frozenset({"alias", "clone", "contiguous"})
RESHAPING: Final = frozenset({"flatten", "reshape", "squeeze", "unsqueeze", "view"})
PERMUTING: Final = frozenset({"permute", "transpose"})

PARTING: Final = frozenset({"chunk", "split", "split_with_sizes", "tensor_split"})
"""Operations with several results, parts of a value."""

_LAST: Final = {"map": "map last", "mean": "mean last"}
_FIRST: Final = {last: first for first, last in _LAST.items()}
_OF_MEANS: Final = {"mean": "map", "mean last": "map last"}


def form_behind(layer: Layer, before: str, shape: Shape) -> str:
    """The form of a layer's output of `shape`, whose first input has the form `before`."""
    if isinstance(layer, GlobalAveragePooling | Dense | Flatten):
        if len(shape) == 1:
            return "vector"
        return "mean last" if before in _FIRST else "mean"
    return _OF_MEANS.get(before, before) if isinstance(layer, ChannelProduct) else before


def form_reshaped(before: str, shape: Shape, wanted: Shape) -> str | None:
    """The form of a value of `shape` when reshaped to `wanted`; None if a network has no such.

    Shuffled groups become a map behind a ChannelShuffle.
    """
    if shape == wanted:
        return before
    if math.prod(shape) != math.prod(wanted):  # images go into one another
        return None
    if before == "map" and len(wanted) == 4 and wanted[2:] == shape[1:]:
        return "groups"
    if before in ("groups", "shuffled") and len(wanted) == 3 and wanted[1:] == shape[2:]:
        return "map"
    if len(wanted) == 1:
        return {"map": "flat", "mean": "vector", "mean last": "vector"}.get(before)
    is_mean = before in ("mean", "vector") and math.prod(wanted) == wanted[0]
    return "mean" if is_mean else None


def form_permuted(before: str, order: Shape) -> str | None:
    """The form of a value whose axes, counted without that of images, come in another order."""
    if order == tuple(range(len(order))):
        return before
    if order == (1, 2, 0):
        return _LAST.get(before)
    if order == (2, 0, 1):
        return _FIRST.get(before)
    return "shuffled" if order == (1, 0, 2, 3) and before == "groups" else None


def axes_order(arguments: Mapping[str, Any], rank: int) -> Shape | None:
    """The order in which a permutation puts the axes behind that of images, counted from 0.

    None if it moves the axis of images.
    """
    if "dims" in arguments:
        order = [axis % rank for axis in arguments["dims"]]
    else:
        order, pair = list(range(rank)), [arguments[key] % rank for key in ("dim0", "dim1")]
        order[pair[0]], order[pair[1]] = pair[1], pair[0]
    return None if order[0] else tuple(axis - 1 for axis in order[1:])
