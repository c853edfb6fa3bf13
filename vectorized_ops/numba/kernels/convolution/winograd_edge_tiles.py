"""Smaller Winograd tiles at the ends of a map.

A map whose side is no multiple of m ends in tiles of fewer pixels. These are computed from fewer
points: a 14 x 14 map by F(4x4, 3x3) takes 484 multiplications instead of 576.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vectorized_ops.numba.compiling.tile_functions import NO_TILE, TileFunction, table_of
from vectorized_ops.winograd import WinogradTransform, winograd_transform

LOW, NARROW = 2, 1
"""What kind a tile is: of fewer lines, of fewer columns, the sum of both, or 0."""


class Ends(NamedTuple):
    """Pixels of a map's last tile, down and across: `outputs` where all tiles are whole."""

    lines: int
    columns: int


def ends_of(size: tuple[int, ...], outputs: int) -> Ends:
    """Return the ends of a map of `size` (H, W)."""
    return Ends(*((side - 1) % outputs + 1 for side in size))


def kinds(outputs: int, ends: Ends) -> tuple[int, ...]:
    """Return which kinds of tiles there may be in a map."""
    low = (0, LOW) if ends.lines < outputs else (0,)
    narrow = (0, NARROW) if ends.columns < outputs else (0,)
    return tuple(a + b for a in low for b in narrow)


def transforms(
    outputs: int, taps: int, ends: Ends, kind: int
) -> tuple[WinogradTransform, WinogradTransform]:
    """Return the maps of a kind of tile, down and across."""
    return (
        winograd_transform(outputs, taps, ends.lines if kind & LOW else None),
        winograd_transform(outputs, taps, ends.columns if kind & NARROW else None),
    )


def used_points(outputs: int, taps: int, ends: Ends) -> Any:
    """Return an array (4, n*n) of bool that tells which kind of tile has which points."""
    side = outputs + taps - 1
    used = np.zeros((4, side, side), np.bool_)
    for kind in kinds(outputs, ends):
        down, across = transforms(outputs, taps, ends, kind)
        used[kind][np.ix_(down.numbers, across.numbers)] = True
    return used.reshape(4, side * side)


def tiles_of_kinds(
    function: TileFunction,
    outputs: int,
    taps: int,
    ends: Ends,
    *more: int,
    bfloat16: tuple[str, ...] = (),
) -> Any:
    """Return an array (4,) of int64 with the address of a tile's function for each kind.

    `more` are further constants; its arrays named in `bfloat16` are of that type.
    """
    addresses = [NO_TILE] * 4
    for kind in kinds(outputs, ends):
        lines = ends.lines if kind & LOW else outputs
        columns = ends.columns if kind & NARROW else outputs
        addresses[kind] = function.address(outputs, taps, lines, columns, *more, bfloat16=bfloat16)
    return table_of(*addresses)


class Items(NamedTuple):
    """What there is to do: tiles of a map, line by line, of one piece of the images after another.

    A row of `table` (items, 4), int64, is an item's first image, its first pixel (y, x) and its
    kind. Thread t has those from parts[t] to parts[t + 1]: all have about the same number of points
    to compute.
    """

    ends: Ends
    table: Any
    parts: Any


def items_of(
    size: tuple[int, ...], outputs: int, taps: int, images: int, piece: int, threads: int
) -> Items:
    """Return the items of a map of `size` (H, W) for so many images at a time."""
    firsts = [np.arange(0, side, outputs) for side in size]
    begins = np.arange(0, images, piece)
    begin, y, x = (axis.reshape(-1) for axis in np.meshgrid(begins, *firsts, indexing="ij"))
    kind = LOW * (y + outputs > size[0]) + NARROW * (x + outputs > size[1])
    points = [
        np.minimum(outputs, side - first) + taps - 1
        for side, first in zip(size, (y, x), strict=True)
    ]
    done = np.concatenate([[0], np.cumsum(points[0] * points[1])])
    shares = np.arange(threads + 1) * done[-1] // threads
    after = np.searchsorted(done, shares)
    before = np.maximum(after - 1, 0)
    parts = np.where(shares - done[before] < done[after] - shares, before, after)
    table = np.stack([begin, y, x, kind], axis=1)
    return Items(ends_of(size, outputs), table, parts)
