"""The collective operations of one rank of a group, on memory given by address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.communication.collectives.call import encoded
from knltrain.communication.collectives.copying import move
from knltrain.communication.collectives.layout import HALF_BYTES
from knltrain.communication.collectives.operations import Collectives, Memory
from knltrain.communication.collectives.peer_wait import OF_TORCH, PeerWait
from knltrain.communication.collectives.reducing import reducing_kernels
from knltrain.communication.collectives.segment import GroupSegment
from knltrain.communication.collectives.steps import Steps
from vectorized_ops.reference.reduction import MAX, STORED

_ONE_SHOT_BYTES = 128 * 1024
"""Every rank reduces vectors of up to 2 / P of this by itself: one barrier instead of two."""
_LINE_BYTES = 64
_NOTHING: Memory = (0, 0)


@final
class Group(Collectives):
    """The collective operations of ``rank``, which all ranks call in the same order.

    Every operation returns when this rank's part is done. It raises what `PeerWait.wait` does, and
    CollectiveError if the ranks call different operations. After an error the group is broken:
    every further operation of any rank raises an error at once. ``timeout_seconds`` is how long
    others may be late, unless an operation is given another limit; ``way_out`` is the advice of
    the error then. Only one thread at a time may use a group.
    """

    def __init__(
        self,
        segment: GroupSegment,
        rank: int,
        names: Sequence[str],
        timeout_seconds: float,
        way_out: str = OF_TORCH,
    ) -> None:
        self.rank, self.ranks = rank, segment.ranks
        self.timeout_seconds = timeout_seconds
        self.peer_wait = PeerWait(segment, rank, names, way_out)
        self._steps = Steps(segment, rank, self.peer_wait, timeout_seconds)
        self._one = np.zeros(1, np.int64)

    def all_reduce(
        self, address: int, count: int, kind: str, operation: int, limit: float | None = None
    ) -> None:
        """See `Collectives`, as for all others; every rank adds up in rank order."""
        call = encoded("all_reduce", count, kind, operation)
        bytes_ = STORED[kind].itemsize
        if count * bytes_ * self.ranks <= 2 * _ONE_SHOT_BYTES:
            self._one[0] = address
            arguments = (max(count, 1), count, self._one, address, address, 0, operation)
            self._steps.take(reducing_kernels(kind).pieces, 2, 1, call, arguments, limit)
            return
        pieces = -(-count * bytes_ // HALF_BYTES)
        piece = -(-count // pieces // _LINE_BYTES) * _LINE_BYTES
        steps = pieces + 2
        striped = reducing_kernels(kind).stripes
        self._steps.take(striped, steps, steps, call, (piece, count, address, operation), limit)

    def reduce(
        self,
        address: int,
        count: int,
        kind: str,
        operation: int,
        root: int,
        limit: float | None = None,
    ) -> None:
        """Reduce to the memory of ``root`` alone; that of the others stays as it is."""
        call = encoded("reduce", count, kind, operation, root)
        self._one[0] = 0 if self.rank == root else address
        target = address if self.rank == root else 0
        self._reduce_pieces(call, self._one, address, target, 0, count, kind, operation, limit)

    def reduce_scatter(
        self,
        sources: Sequence[int],
        target: int,
        count: int,
        kind: str,
        operation: int,
        limit: float | None = None,
    ) -> None:
        """Reduce vector r of the ``sources`` of all ranks, ``count`` elements, to rank r."""
        call = encoded("reduce_scatter", count, kind, operation)
        handed, own = _array(sources), sources[self.rank]
        handed[self.rank] = 0
        self._reduce_pieces(call, handed, own, target, self.rank, count, kind, operation, limit)

    def broadcast(self, memory: Memory, root: int, limit: float | None = None) -> None:
        """Copy the memory of ``root`` to that of all others."""
        sources = [memory if self.rank == root else _NOTHING]
        targets = [_NOTHING] * self.ranks
        if self.rank != root:
            targets[root] = memory
        self._move("broadcast", sources, targets, 0, memory[1], memory[1], root, limit)

    def all_gather(
        self, source: Memory, targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """Copy the ``source`` of every rank to its place in the ``targets`` (P,) of all."""
        longest, whole = max(bytes_ for _, bytes_ in targets), sum(bytes_ for _, bytes_ in targets)
        self._move("all_gather", [source], targets, 0, longest, whole, 0, limit)

    def gather(
        self, source: Memory, targets: Sequence[Memory], root: int, limit: float | None = None
    ) -> None:
        """Copy the ``source`` of every rank to the ``targets`` (P,) of ``root``."""
        if self.rank != root:
            targets = [_NOTHING] * self.ranks
        self._move("gather", [source], targets, 0, source[1], source[1], root, limit)

    def scatter(
        self, sources: Sequence[Memory], target: Memory, root: int, limit: float | None = None
    ) -> None:
        """Copy place r of the ``sources`` (P,) of ``root`` to rank r."""
        if self.rank != root:
            sources = [_NOTHING] * self.ranks
        targets = [_NOTHING] * self.ranks
        targets[root] = target
        self._move("scatter", sources, targets, self.rank, target[1], target[1], root, limit)

    def all_to_all(
        self, sources: Sequence[Memory], targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """Copy place r of the ``sources`` (P,) of rank q to place q of the ``targets`` of rank r.

        Sizes may differ from pair to pair, if sender and receiver agree.
        """
        longest = np.array([max(bytes_ for _, bytes_ in (*sources, *targets))])
        self._one[0] = address = int(longest.ctypes.data)
        arguments = (1, 1, self._one, address, address, 0, MAX)
        call = encoded("all_to_all", 0)
        self._steps.take(reducing_kernels("int64").pieces, 2, 1, call, arguments, limit)
        self._move("all_to_all", sources, targets, self.rank, int(longest[0]), 0, 0, limit)

    def barrier(self, limit: float | None = None) -> None:
        """Return when all ranks have called this."""
        nothing = [_NOTHING] * self.ranks
        self._move("barrier", nothing, nothing, 0, 0, 0, 0, limit)

    def _reduce_pieces(
        self,
        call: int,
        sources: npt.NDArray[np.int64],
        own: int,
        target: int,
        place: int,
        count: int,
        kind: str,
        operation: int,
        limit: float | None,
    ) -> None:
        piece = _piece_bytes(sources.size) // STORED[kind].itemsize
        steps = max(1, -(-count // piece)) + 1
        arguments = (piece, count, sources, own, target, place, operation)
        self._steps.take(reducing_kernels(kind).pieces, steps, steps - 1, call, arguments, limit)

    def _move(
        self,
        name: str,
        sources: Sequence[Memory],
        targets: Sequence[Memory],
        place: int,
        longest: int,
        announced: int,
        root: int,
        limit: float | None,
    ) -> None:
        piece = _piece_bytes(len(sources))
        steps = max(1, -(-longest // piece)) + 1
        own = sources[0 if len(sources) == 1 else self.rank]
        arguments = (
            piece,
            _array([address for address, _ in sources]),
            _array([bytes_ for _, bytes_ in sources]),
            _array([address for address, _ in targets]),
            _array([bytes_ for _, bytes_ in targets]),
            place,
            own[0],
        )
        call = encoded(name, announced, root=root)
        self._steps.take(move, steps, steps - 1, call, arguments, limit)


def _piece_bytes(places: int) -> int:
    return HALF_BYTES // places // _LINE_BYTES * _LINE_BYTES


def _array(numbers: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array(numbers, np.int64)
