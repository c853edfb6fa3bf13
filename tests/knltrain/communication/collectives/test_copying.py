from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from knltrain.communication.collectives import Group
from knltrain.communication.collectives.layout import HALF_BYTES

InRanks = Callable[..., list[Any]]


def memory(array: np.ndarray) -> tuple[int, int]:
    return int(array.ctypes.data), array.nbytes


def bytes_of(rank: int, number: int, size: int) -> np.ndarray:
    return np.random.default_rng([rank, number]).integers(0, 256, size, np.uint8)


def test_every_rank_gets_its_piece_whatever_the_size(in_ranks: InRanks) -> None:
    sizes = [0, 1, 100, HALF_BYTES // 3 // 64 * 64, HALF_BYTES + 7, 3 * HALF_BYTES]

    def work(group: Group) -> bool:
        good = True
        for size in sizes:
            given = [bytes_of(group.rank, other, size) for other in range(group.ranks)]
            got = [np.zeros(size, np.uint8) for _ in range(group.ranks)]
            group.all_to_all([memory(it) for it in given], [memory(it) for it in got])
            wanted = [bytes_of(other, group.rank, size) for other in range(group.ranks)]
            good &= all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
            group.all_gather(memory(given[0]), [memory(it) for it in got])
            wanted = [bytes_of(other, 0, size) for other in range(group.ranks)]
            good &= all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
        return good

    assert in_ranks(3, work) == [True, True, True]


def test_root_alone_gathers_and_all_get_what_it_scatters(in_ranks: InRanks) -> None:
    def work(group: Group) -> tuple[int, int]:
        got = np.zeros((group.ranks, 5), np.uint8)
        own = np.full(5, group.rank + 1, np.uint8)
        group.gather(memory(own), [memory(row) for row in got], root=1)
        back, turned = np.zeros(5, np.uint8), got[::-1].copy()
        group.scatter([memory(row) for row in turned], memory(back), root=1)
        return int(got.sum()), int(back[0])

    assert in_ranks(3, work) == [(0, 3), (30, 2), (0, 1)]


def test_one_rank_alone_does_not_wait(in_ranks: InRanks) -> None:
    def work(group: Group) -> list[int]:
        source, target = np.arange(3, dtype=np.uint8), np.zeros(3, np.uint8)
        group.all_to_all([memory(source)], [memory(target)])
        group.barrier()
        group.broadcast(memory(target), 0)
        found: list[int] = target.tolist()
        return found

    assert in_ranks(1, work) == [[0, 1, 2]]
