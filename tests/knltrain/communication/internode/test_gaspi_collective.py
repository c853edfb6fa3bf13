"""Sums by our own algorithms; all else goes to another collective. MPI: `test_torch_collective`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from knltrain.communication.gaspi import thread_ranks
from knltrain.communication.internode import gaspi_collective
from knltrain.communication.internode.collective import OneNode
from knltrain.communication.internode.gaspi_collective import (
    SMALL_FLOATS,
    Algorithm,
    GaspiCollective,
    slot_vectors,
)
from knltrain.communication.internode.one_sided_sums import DoublingSum, RingSum
from knltrain.errors import CollectiveError, ExchangeTimeout


def of_all(nodes: int, work: Any, algorithm: Algorithm = "auto", size: int = 20_000) -> list[Any]:
    def one(ranks: Any) -> Any:
        made = GaspiCollective(Recorded(), lambda: ranks, size, 20, algorithm)
        return work(made, ranks.rank)

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


def test_small_vectors_have_small_slots() -> None:
    def work(found: GaspiCollective, rank: int) -> list[int]:
        for size in (100, 20_000):
            found.all_reduce(np.full(size, rank, np.float32))
        rooms = [found._sums[kind].size for kind in (DoublingSum, RingSum)]
        found.close()
        return rooms

    assert of_all(2, work) == [[SMALL_FLOATS, 20_000]] * 2
    assert of_all(2, work, "auto", 20_001) == [[SMALL_FLOATS, 20_001]] * 2


@pytest.mark.parametrize("nodes", [2, 3, 4, 7])
@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling"])
def test_the_memory_of_slots_is_foreseen(algorithm: Algorithm, nodes: int) -> None:
    size = 2**16

    def work(found: GaspiCollective, _rank: int) -> int:
        found.all_reduce(np.ones(size, np.float32))
        (segment,) = found._space._segments
        taken = int(segment.memory.size)
        found.close()
        return taken

    foreseen = 4 * size * slot_vectors(algorithm, nodes)
    for taken in of_all(nodes, work, algorithm, size):
        assert foreseen / 2 <= taken <= foreseen + 64 * nodes


class Recorded(OneNode):  # type: ignore[misc]
    """A node alone that tells which of its operations were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in ("broadcast", "gather", "all_gather", "all_to_all", "close"):
            self.called.append(name)
        return super().__getattribute__(name)


def test_all_else_is_that_of_the_other_collective() -> None:
    def work(found: GaspiCollective, _rank: int) -> list[str]:
        assert (found.name, found.node, found.nodes) == ("gaspi", 0, 1)
        assert found.gather(np.array([2.0])).tolist() == [[2.0]]
        bytes_, rows = np.arange(3, dtype=np.uint8), np.zeros((1, 3), np.uint8)
        found.all_gather(bytes_, rows)
        assert rows.tolist() == [[0, 1, 2]]
        found.all_to_all(rows, rows)
        found.broadcast(np.ones(2, np.float32))
        others = found._others
        found.close()
        return list(others.called)

    assert of_all(1, work) == [["gather", "all_gather", "all_to_all", "broadcast", "close"]]


def test_who_fails_leaves_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaspi_collective, "_LEAVE_SECONDS", 0.2)

    def work(found: GaspiCollective, rank: int) -> list[str]:
        found.all_reduce(np.ones(4, np.float32))
        if rank == 0:
            found._timeout_seconds = found._sum_for(4)._timeout_seconds = 0.2
            with pytest.raises(ExchangeTimeout, match=r"by 'gaspi' took more than 0\.2 s"):
                found.all_reduce(np.ones(4, np.float32))
            with pytest.raises(CollectiveError, match="a sum has failed before"):
                found.all_reduce(np.ones(4, np.float32))
        found.close()
        return list(found._others.called)

    assert of_all(2, work) == [[], []]
