# ruff: noqa: ARG002 (an order is for locks, and atomic adds need none)
"""The transport of workers on several nodes that visit the center: one-sided MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.clocks import WRITE_INCREMENT
from knltrain.communication.memory_box.remote import RemoteBox, Vector
from knltrain.communication.mpi.joining import leave_mpi
from knltrain.errors import ConfigError, KnltrainError, SegmentError
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.transports.mpi_team import MpiTeam
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.team import check_start_values
from knltrain.exchange.transports.transport import WHOLE, Order, VisitedCenter
from knltrain.vectors import FloatArray, aligned_zeros

_LEAVE_SECONDS = 5.0
_FLOAT_BYTES, _WORD_BYTES = 4, 8
_ROOM_BYTES = 2**16
"""More bytes than buffers lose by rounding to pages."""


@final
class OneSidedCenter(VisitedCenter):
    """A worker of the MPI job ``mpi``.COMM_WORLD, which has as many ranks as there are workers.

    The center is a buffer of a `RemoteBox`; the first worker of each node has a shard of it. This
    is ShmCaffe's parameter server, sharded over the nodes. ``center`` is this worker's copy, as it
    was last read. A visit reads the center, contributes against the copy, and has the contribution
    added where the center lies, each element atomically. So every contribution arrives whole, in
    any order; the copy does not have what others add meanwhile.

    ``inside`` is the worker in its node's segment, which has its local, and reports an abort of the
    run. If it has a spare, that is ``center``, so that all workers of its group can read it. Others
    may be late by ``timeout_seconds``. For rules whose center is a sum (`adds`).
    """

    def __init__(self, inside: NodeShared, mpi: Any, timeout_seconds: float) -> None:
        self._inside = inside
        self._meetings = MpiTeam(mpi, timeout_seconds, inside.check)
        self.rank, self.workers = self._meetings.rank, self._meetings.workers
        self.clocks = inside.clocks
        self.local, self.spare = inside.local, inside.local[:0]
        size = self.local.size
        self.center = inside.spare if inside.spare.size else aligned_zeros(size)
        self.kept = np.zeros((0, size), np.float32)
        servers = list(range(0, self.workers, inside.workers))
        each = -(-size // len(servers)) * _FLOAT_BYTES + self.workers * _WORD_BYTES
        self._box = _box(mpi.COMM_WORLD, each + _ROOM_BYTES, servers, timeout_seconds, inside.check)
        self._shared = self._opened(lambda: self._box.create_buffer(size))
        self._steps = self._opened(lambda: self._box.create_buffer(self.workers, np.int64))
        self._own = self._box.create_buffer(size, private=True)
        self._at_peace = True

    def read_center(self) -> None:
        """Update the copy ``center``."""
        self._shared.read(self.center)

    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Read the center, contribute to it, and follow it if the rule does."""
        self.read_center()
        for each, part in rule.on(WHOLE):
            each.contribute(self.local[part], self.center[part], contribution[part])
        self.push(rule, contribution, order)
        if rule.follows:
            self.read_center()
            for each, part in rule.on(WHOLE):
                each.follow(self.local[part], self.center[part], contribution[part])

    def push(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Add a contribution to the center where it lies."""
        self._at_peace = False
        self._own.write(contribution)
        self.push_marks.mark(WRITE_INCREMENT)
        self._shared.accumulate(self._own)

    def await_turn(self) -> None:
        """Raise ConfigError: there are no turns."""
        raise ConfigError(
            "the schedule 'round_robin' is for workers that share the memory of one computer: "
            "expected one whose workers visit the center in any order, such as that of 'seasgd'"
        )

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0 (collective)."""
        self.barrier()  # all visits of late workers end before
        if self.rank == 0:
            self._shared.write(check_start_values(values, self.center.size))
        self.barrier()
        np.copyto(self.local, self.center)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers in rank order (collective)."""
        return self._meetings.all_sum(values)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here, and then read the center (collective).

        All read the same values only if no worker visits the center before all have read. To
        evaluate or save it, call the barrier once more after that.
        """
        self._meetings.barrier(self._meetings.later(timeout_seconds))
        self.read_center()
        self._at_peace = True

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all."""
        return self._steps.announce(steps, self.rank)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._inside.check()

    def close(self) -> None:
        """Leave the job, if all others do so in a few seconds; release the node's memory.

        A worker that has visited the center since the last barrier leaves without the others: the
        run has failed then.
        """
        self.local = self.spare = self.center = np.zeros(0, np.float32)
        self.kept = np.zeros((0, 0), np.float32)
        at_peace, self._at_peace = self._at_peace, False
        try:
            if at_peace:
                self._meetings.barrier(_LEAVE_SECONDS)
                self._box.close()
                leave_mpi(_LEAVE_SECONDS)
            else:
                self._box.abandon()
        except KnltrainError:
            self._box.abandon()
        finally:
            self._inside.close()

    def _opened(self, create: Callable[[], Vector]) -> Vector:
        """Open a buffer that rank 0 makes (collective)."""
        key = np.zeros(1, np.int64)
        made = create() if self.rank == 0 else None
        if made is not None:
            key[0] = made.key
        self._meetings.broadcast(key)
        return self._box.open(int(key[0])) if made is None else made


def _box(
    world: Any,
    bytes_per_server: int,
    servers: list[int],
    timeout_seconds: float,
    check: Callable[[], None],
) -> RemoteBox:
    """Make the box; SegmentError with advice if a node has no room for its share."""
    try:
        return RemoteBox.create(world, bytes_per_server, servers, timeout_seconds, check)
    except SegmentError as error:
        raise SegmentError(
            f"no room for the center; the first worker of each computer keeps a share of it in "
            f"/dev/shm: {error}; enlarge /dev/shm there (of a container: --shm-size), or take more "
            "computers"
        ) from error
