from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.communication.collectives import Group
from knltrain.communication.collectives.layout import HALF_BYTES
from vectorized_ops.reference.reduction import SUM, combine

InRanks = Callable[..., list[Any]]

PIECE = HALF_BYTES // 4
SIZES = [0, 1, 1000, PIECE - 1, PIECE + 1, 3 * PIECE + 100, 5 * PIECE]


def vector(rank: int, size: int) -> np.ndarray:
    return np.random.default_rng([rank, size]).standard_normal(size, np.float32)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_ranks_get_the_sum_in_rank_order(in_ranks: InRanks, ranks: int) -> None:
    def work(group: Group) -> list[np.ndarray]:
        found = [vector(group.rank, size) for size in SIZES]
        for array in found:
            group.all_reduce(int(array.ctypes.data), array.size, "float32", SUM)
        return found

    found = in_ranks(ranks, work)
    for number, size in enumerate(SIZES):
        expected = np.zeros(size, np.float32)
        combine(expected, [vector(rank, size) for rank in range(ranks)], "float32", SUM)
        for rank in range(ranks):
            assert found[rank][number].tobytes() == expected.tobytes(), (size, rank)


def test_mixed_sizes_and_ranks_that_are_late(in_ranks: InRanks) -> None:
    rng = np.random.default_rng(3)
    sizes = rng.choice([1, 100, 50_000, 2 * PIECE + 3], 60, p=[0.4, 0.3, 0.2, 0.1])

    def work(group: Group) -> bool:
        pace, good = np.random.default_rng(group.rank), True
        for turn, size in enumerate(sizes):
            if pace.random() < 0.1:
                group.peer_wait.check()
                np.linalg.norm(pace.random(100_000))
            array = np.full(size, group.rank + turn, np.float32)
            group.all_reduce(int(array.ctypes.data), array.size, "float32", SUM)
            good &= bool(np.all(array == 3 * turn + 3))
            given = np.arange(3 * size, dtype=np.float32).reshape(3, size)
            part = np.zeros(size, np.float32)
            sources = [int(row.ctypes.data) for row in given]
            group.reduce_scatter(sources, int(part.ctypes.data), part.size, "float32", SUM)
            good &= np.array_equal(part, 3 * given[group.rank])
        return good

    assert in_ranks(3, work) == [True, True, True]


def test_only_the_root_gets_what_is_reduced_to_it(in_ranks: InRanks) -> None:
    def work(group: Group) -> float:
        array = np.full(2 * PIECE, group.rank + 1, np.float32)
        group.reduce(int(array.ctypes.data), array.size, "float32", SUM, root=2)
        return float(array.mean())

    assert in_ranks(3, work) == [1.0, 2.0, 6.0]
