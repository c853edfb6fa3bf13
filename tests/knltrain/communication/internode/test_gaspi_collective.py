"""Sums by our own algorithms; all else goes to another collective. MPI: `test_torch_collective`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from knltrain.communication.gaspi import thread_ranks
from knltrain.communication.internode.collective import OneNode
from knltrain.communication.internode.gaspi_collective import (
    SMALL_FLOATS,
    Algorithm,
    GaspiCollective,
)
from knltrain.communication.internode.one_sided_sums import DoublingSum, RingSum
from knltrain.errors import ExchangeTimeout


def of_all(nodes: int, work: Any, algorithm: Algorithm = "auto", limit: float = 20) -> list[Any]:
    def one(ranks: Any) -> Any:
        others = OneNode()
        return work(GaspiCollective(others, ranks, limit, algorithm), ranks.rank)

    with ThreadPoolExecutor(nodes) as threads:
        return list(threads.map(one, thread_ranks(nodes)))


@pytest.mark.parametrize(
    ("algorithm", "small", "large"),
    [
        ("auto", DoublingSum, RingSum),
        ("ring", RingSum, RingSum),
        ("recursive_doubling", DoublingSum, DoublingSum),
    ],
)
def test_the_algorithm_is_chosen_by_the_size_or_by_the_user(
    algorithm: Algorithm, small: type, large: type
) -> None:
    def work(found: GaspiCollective, rank: int) -> list[set[float]]:
        told = []
        for size, kind in ((100, small), (SMALL_FLOATS, small), (SMALL_FLOATS + 1, large)):
            values = np.full(size, rank + 1, np.float32)
            found.all_reduce(values)
            assert type(found._sum_for(size)) is kind
            told.append(set(values.tolist()))
        reduced = np.full(5, rank + 1, np.float32)
        found.reduce(reduced)
        found.close()
        return [*told, set(reduced.tolist())]

    assert of_all(3, work, algorithm) == [[{6.0}] * 4] * 3


def test_room_is_made_a_few_times_whatever_sizes_come() -> None:
    def work(found: GaspiCollective, rank: int) -> int:
        for size in range(1, 1000, 37):
            found.all_reduce(np.full(size, rank, np.float32))
        made = len(found._space._segments)
        found.close()
        return made

    assert all(made <= 10 for made in of_all(2, work))


def test_all_else_is_that_of_the_other_collective() -> None:
    def work(found: GaspiCollective, _rank: int) -> None:
        assert (found.name, found.node, found.nodes) == ("gaspi", 0, 1)
        assert found.gather(np.array([2.0])).tolist() == [[2.0]]
        bytes_, rows = np.arange(3, dtype=np.uint8), np.zeros((1, 3), np.uint8)
        found.all_gather(bytes_, rows)
        assert rows.tolist() == [[0, 1, 2]]
        found.all_to_all(rows, rows)
        values = np.ones(2, np.float32)
        found.broadcast(values)
        found.close()

    of_all(1, work)


def test_who_fails_leaves_without_the_others() -> None:
    def work(found: GaspiCollective, rank: int) -> None:
        found.all_reduce(np.ones(4, np.float32))
        if rank == 0:
            with pytest.raises(ExchangeTimeout, match=r"by 'gaspi' took more than 0\.3 s"):
                found.all_reduce(np.ones(4, np.float32))
        else:
            found._has_failed = True
        found.close()

    of_all(2, work, limit=0.3)
