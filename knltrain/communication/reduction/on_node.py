"""Sums between processes of one node, through shared memory, by a thread beside those that compute.

The thread calls compiled kernels without the GIL, and sleeps while it waits for others. So the
calling thread computes meanwhile.
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
"""A number of values that takes the algorithm for long vectors."""


@final
class NodeReducer(Reducer):
    """Adds up by ``collectives``, one sum after the other, in a thread of its own.

    ``leave`` is called at the end. The thread runs on ``cpus`` if given, else on the CPUs of the
    thread that made this.
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
        """Wait for the other ranks of this node, and become ``rank`` of ``ranks``.

        All give the same ``address``, any short text that no other program on this node uses.
        ``timeout_seconds`` is how long the others may be late, now and in every sum.
        Raises ExchangeTimeout if they are later, PeerLost if one came and has ended, SegmentError
        for an address in use, CollectiveError for a rank out of range.
        """
        segment, group = met_group(address, rank, ranks, timeout_seconds)
        try:
            for size in (1, _LARGE):  # compile the kernels now, not in a layer's sum
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
                "a sum was started by a closed reducer: expected an open one; close it when "
                "training has ended"
            )
        return _InThread(self._thread.submit(self._reduce, values, MEAN if average else SUM))

    def close(self) -> None:
        """Cancel the sums that have not begun, and leave the group."""
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
    """A sum in the thread; it ends at the latest by the time limit of the collectives."""

    def __init__(self, future: Future[float]) -> None:
        self._future = future

    def wait(self) -> float:
        """See `Reduction.wait`."""
        if self._future.cancelled():
            raise CollectiveError(
                "the reducer was closed before this sum began: close it when no sum is under way"
            )
        return self._future.result()
