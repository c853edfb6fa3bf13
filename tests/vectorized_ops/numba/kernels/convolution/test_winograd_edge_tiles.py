from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import (
    LOW,
    NARROW,
    Ends,
    ends_of,
    items_of,
    kinds,
    used_points,
)


@pytest.mark.parametrize(
    ("size", "outputs", "ends"),
    [((8, 8), 4, (4, 4)), ((14, 7), 4, (2, 3)), ((1, 5), 4, (1, 1)), ((7, 8), 2, (1, 2))],
)
def test_last_tiles_have_what_is_left_of_a_map(
    size: tuple[int, int], outputs: int, ends: tuple[int, int]
) -> None:
    assert ends_of(size, outputs) == ends


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((4, 4), {0: 36}),
        ((2, 4), {0: 36, LOW: 24}),
        ((4, 3), {0: 36, NARROW: 30}),
        ((2, 1), {0: 36, LOW: 24, NARROW: 18, LOW + NARROW: 12}),
    ],
)
def test_tiles_of_fewer_pixels_have_fewer_points(
    ends: tuple[int, int], expected: dict[int, int]
) -> None:
    used = used_points(4, 3, Ends(*ends))
    assert set(kinds(4, Ends(*ends))) == set(expected)
    assert {kind: used[kind].sum() for kind in expected} == expected


def test_map_of_14_pixels_takes_484_products_instead_of_576() -> None:
    items = items_of((14, 14), 4, 3, 32, 32, 1)
    used = used_points(4, 3, items.ends)
    assert sum(used[kind].sum() for kind in items.table[:, 3]) == 484


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 40])
@pytest.mark.parametrize(("size", "pieces"), [((14, 14), 1), ((7, 7), 1), ((5, 9), 3), ((1, 1), 2)])
def test_items_are_all_tiles_of_all_pieces_in_fair_parts(
    size: tuple[int, int], pieces: int, threads: int
) -> None:
    items = items_of(size, 4, 3, pieces * 32, 32, threads)
    tiles = [
        (32 * piece, y, x, LOW * (y + 4 > size[0]) + NARROW * (x + 4 > size[1]))
        for piece in range(pieces)
        for y in range(0, size[0], 4)
        for x in range(0, size[1], 4)
    ]
    assert_array_equal(items.table, tiles)
    parts = items.parts
    assert (parts[0], parts[-1]) == (0, len(tiles))
    assert (np.diff(parts) >= 0).all()
    work = used_points(4, 3, items.ends).sum(axis=1)[items.table[:, 3]]
    shares = [work[a:b].sum() for a, b in pairwise(parts)]
    assert sum(shares) == work.sum()
    assert max(shares) <= work.sum() / threads + work.max()
