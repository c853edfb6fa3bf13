"""Sums between processes of one node, through shared memory, by a thread beside those that compute.

The thread calls compiled kernels, which hold no lock of Python's, and sleeps where it waits for
others: the calling thread computes meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

import numpy as np

from affinity import bind_thread
from knltrain.communication.collectives import Collectives
from knltrain.communication.reduction.node_rendezvous import met_group
from knltrain.communication.reduction.reducer import Reducer, Reduction, check_values
from knltrain.errors import CollectiveError
from knltrain.vectors import FloatArray
from vectorized_ops.reference.reduction import MEAN, SUM

_LARGE = 128 * 1024
"""Values; a sum of so many goes the way of large ones."""


@final
class NodeReducer(Reducer):
    """Adds up by ``collectives``, one sum after the other, in a thread of its own.

    ``leave`` is called at the end. The thread runs on ``cpus``, if any are given; else on those of
    the thread that has made this.
    """

    def __init__(
        self, collectives: Collectives, leave: Callable[[], None], cpus: Iterable[int] = ()
    ) -> None:
        self.rank, self.ranks = collectives.rank, collectives.ranks
        self._collectives, self._leave = collectives, leave
        place = frozenset(cpus)
        take_place = (lambda: bind_thread(place)) if place else None
        self._thread = ThreadPoolExecutor(1, "knltrain-reduction", take_place)
        self._is_closed = False

    @classmethod
    def meet(
        cls,
        address: str,
        rank: int,
        ranks: int,
        timeout_seconds: float = 60.0,
        cpus: Iterable[int] = (),
    ) -> NodeReducer:
        """Meet the other ranks of this node and become ``rank`` of ``ranks``.

        All give the same ``address``, any short text that no other program on this node uses.
        ``timeout_seconds`` is how long the others may be late, now and in every sum.
        Raises ExchangeTimeout if they are later, PeerLost if one came and has ended, SegmentError
        for an address that is in use, CollectiveError for a rank that cannot be.
        """
        segment, group = met_group(address, rank, ranks, timeout_seconds)
        try:
            for size in (1, _LARGE):  # compiles the kernels: that is no part of a layer's sum
                zeros = np.zeros(size, np.float32)
                group.all_reduce(int(zeros.ctypes.data), size, "float32", SUM)
        except BaseException:
            segment.leave(rank)
            raise
        return cls(group, lambda: segment.leave(rank), cpus)

    def start(self, values: FloatArray, average: bool = False) -> Reduction:
        """See `Reducer.start`; values are added up in rank order."""
        check_values(values)
        if self._is_closed:
            raise CollectiveError(
                "a sum was started by a reducer that is closed: expected an open one; close it "
                "when training has ended"
            )
        return _InThread(self._thread.submit(self._reduce, values, MEAN if average else SUM))

    def close(self) -> None:
        """Give up the sums that have not begun, and leave the group."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.shutdown(cancel_futures=True)
            self._leave()

    def _reduce(self, values: FloatArray, operation: int) -> float:
        address = int(values.ctypes.data)
        self._collectives.all_reduce(address, values.size, "float32", operation)
        return time.perf_counter()


@final
class _InThread(Reduction):
    """What the thread does; it ends by the time limit of the collectives at the latest."""

    def __init__(self, future: Future[float]) -> None:
        self._future = future

    def wait(self) -> float:
        """See `Reduction.wait`."""
        if self._future.cancelled():
            raise CollectiveError(
                "a sum was waited for whose reducer was closed before it began: close it when "
                "nothing is under way"
            )
        return self._future.result()
