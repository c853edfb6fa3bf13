"""The forms that a value takes in PyTorch where a network has one: flattened or not, and so on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch

from knltrain.network.layers import (
    ChannelProduct,
    Dense,
    Flatten,
    GlobalAveragePooling,
    Layer,
    Shape,
)

WITHOUT_EFFECT: Final = frozenset({"alias", "clone", "contiguous"})
RESHAPING: Final = frozenset({"flatten", "reshape", "squeeze", "unflatten", "unsqueeze", "view"})
PERMUTING: Final = frozenset(
    {"moveaxis", "movedim", "permute", "swapaxes", "swapdims", "transpose"}
)

PARTING: Final = frozenset({"chunk", "split", "split_with_sizes", "tensor_split"})
"""Operations with several results, parts of a value."""

CONVERTING: Final = frozenset({"_to_copy", "to", "type_as"})
"""Without effect on values that are what they would become."""

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
    if before in ("mean", "mean last", "vector"):
        if math.prod(wanted) == wanted[0]:
            return "mean"
        if len(wanted) == 3 and math.prod(wanted) == wanted[-1]:
            return "mean last"
    return None


def form_permuted(before: str, order: Shape) -> str | None:
    """The form of a value whose axes, counted without that of images, come in another order."""
    if order == tuple(range(len(order))):
        return before
    if order == (1, 2, 0):
        return _LAST.get(before)
    if order == (2, 0, 1):
        return _FIRST.get(before)
    return "shuffled" if order == (1, 0, 2, 3) and before == "groups" else None


def axes_order(move: Callable[[torch.Tensor], torch.Tensor], rank: int) -> Shape | None:
    """The order in which `move` puts the axes behind that of images, counted from 0.

    None if it moves the axis of images.
    """
    sizes = list(range(2, 2 + rank))
    found = move(torch.empty(sizes, dtype=torch.float32, device="meta")).shape
    order = [sizes.index(size) - 1 for size in found]
    return None if order[0] != -1 else tuple(order[1:])
