from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.communication.collectives import Group
from knltrain.communication.collectives.layout import HALF_BYTES
from knltrain.communication.collectives.stripes import stripe_of
from vectorized_ops.reference.reduction import MAX

InRanks = Callable[..., list[Any]]


@pytest.mark.parametrize("item_bytes", [1, 2, 4, 8])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize(("piece", "count"), [(640, 640), (640, 1500), (64, 65), (1024, 0)])
def test_stripes_of_all_ranks_are_a_piece_cut_at_lines(
    item_bytes: int, ranks: int, piece: int, count: int
) -> None:
    stripe = stripe_of(item_bytes)
    for number in range(-(-count // piece)):
        used = min(piece, count - number * piece)
        end = 0
        for rank in range(ranks):
            in_slot, in_vector, bytes_ = stripe(number, piece, count, rank, ranks)
            assert in_slot == end
            assert in_slot % 64 == 0 or in_slot == used * item_bytes
            assert in_vector == number * piece * item_bytes + in_slot
            end = in_slot + bytes_
        assert end == used * item_bytes


def test_last_piece_is_cut_where_the_whole_ones_are() -> None:
    stripe = stripe_of(4)
    whole = [stripe(0, 640, 1000, rank, 3)[0] for rank in range(3)]
    assert whole == [0, 832, 1664]
    assert [stripe(1, 640, 1000, rank, 3) for rank in range(3)] == [
        (0, 2560, 832),
        (832, 3392, 608),
        (1440, 4000, 0),
    ]


def test_every_rank_gets_all_stripes_of_all_pieces(in_ranks: InRanks) -> None:
    """Of integers, which tell a stripe that was left out, or reduced twice, by every element."""
    size = 2 * HALF_BYTES // 8 + 77
    given = [np.random.default_rng(rank).integers(0, 2**60, size) for rank in range(3)]

    def work(group: Group) -> np.ndarray:
        vector = given[group.rank].copy()
        group.all_reduce(int(vector.ctypes.data), vector.size, "int64", MAX)
        return vector

    expected = np.max(given, axis=0)
    for found in in_ranks(3, work):
        assert np.array_equal(found, expected)
