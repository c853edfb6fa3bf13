from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from knltrain.communication.collectives import Group
from vectorized_ops.reference.reduction import MAX, SUM

InRanks = Callable[..., list[Any]]


def test_operations_of_all_kinds_may_follow_each_other(in_ranks: InRanks) -> None:
    def work(group: Group) -> bool:
        good, rank = True, group.rank
        for turn, size in enumerate([3, 70_000, 300_000, 10, 200_000, 1]):
            value = np.full(size, rank + turn, np.float32)
            memory = int(value.ctypes.data), value.nbytes
            group.all_reduce(memory[0], size, "float32", SUM)
            good &= bool(np.all(value == 2 * turn + 1))
            group.broadcast(memory, turn % 2)
            pair = np.zeros((2, size), np.float32)
            value[:] = rank
            group.all_gather(memory, [(int(row.ctypes.data), row.nbytes) for row in pair])
            good &= bool(np.all(pair == [[0], [1]]))
            group.barrier()
            group.reduce(memory[0], size, "float32", MAX, root=1)
            good &= bool(np.all(value == rank))
        return good

    assert in_ranks(2, work) == [True, True]


def test_sizes_may_differ_from_pair_to_pair(in_ranks: InRanks) -> None:
    def work(group: Group) -> list[list[int]]:
        given = [np.full(group.rank + other, group.rank, np.uint8) for other in range(3)]
        got = [np.zeros(group.rank + other, np.uint8) for other in range(3)]
        group.all_to_all(
            [(int(it.ctypes.data), it.nbytes) for it in given],
            [(int(it.ctypes.data), it.nbytes) for it in got],
        )
        return [it.tolist() for it in got]

    assert in_ranks(3, work)[2] == [[0, 0], [1, 1, 1], [2, 2, 2, 2]]
