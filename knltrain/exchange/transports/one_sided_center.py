# ruff: noqa: ARG002 (an order is a matter of locks, and what is added needs none)
"""The transport of workers on several nodes who come to the center alone: one-sided MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.memory_box.remote import RemoteBox, Vector
from knltrain.communication.mpi.joining import leave_mpi
from knltrain.errors import ConfigError, KnltrainError, SegmentError
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.transports.mpi_team import MpiTeam
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.start_values import check_start_values
from knltrain.exchange.transports.visited_center import Order, VisitedCenter
from knltrain.vectors import FloatArray, aligned_zeros

_LEAVE_SECONDS = 5.0
_FLOAT_BYTES, _WORD_BYTES = 4, 8
_ROOM_BYTES = 2**16
"""More than buffers lose to whole pages."""


@final
class OneSidedCenter(VisitedCenter):
    """A worker of the MPI job ``mpi``.COMM_WORLD, which has as many ranks as there are workers.

    The center is a buffer of a `RemoteBox`, of which the first worker of each node has a shard:
    ShmCaffe's parameter server, sharded over the nodes. ``center`` is a copy of it, as this worker
    has read it last. A visit reads, contributes against what was read, and has the contribution
    added where the center lies, which nobody can get between for a single element; what others add
    meanwhile is not in what was read. So of each contribution all arrives, in any order.

    ``inside`` is the worker in the memory of its node, which has its local and says if the run is
    aborted. If it has a spare, that is ``center``, so that others can read it: all workers of a
    group do, whose root comes to the center. Nobody may be later than ``timeout_seconds``. For
    rules whose center is a sum (`adds`).
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
        """Bring ``center`` up to date."""
        self._shared.read(self.center)

    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Read the center, contribute to it, and follow it if the rule does."""
        self.read_center()
        rule.contribute(self.local, self.center, contribution)
        self.push(rule, contribution, order)
        if rule.follows:
            self.read_center()
            rule.follow(self.local, self.center, contribution)

    def push(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Have a contribution added to the center where it lies."""
        self._at_peace = False
        self._own.write(contribution)
        self._shared.accumulate(self._own)

    def await_turn(self) -> None:
        """Refuse: nobody keeps turns."""
        raise ConfigError(
            "the schedule 'round_robin' is for workers that share the memory of one computer: "
            "expected one whose workers visit the center in any order, such as that of 'seasgd'"
        )

    def start_from(self, values: FloatArray | None = None) -> None:
        """Give the center and every local the values of rank 0 (collective)."""
        self.barrier()  # whoever is late has come to the center before
        if self.rank == 0:
            self._shared.write(check_start_values(values, self.center.size))
        self.barrier()
        np.copyto(self.local, self.center)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers in rank order (collective)."""
        return self._meetings.all_sum(values)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here, and then read the center (collective).

        It is the same for all as long as nobody goes on to visit it before all have read: where it
        is to be measured or kept, they meet once more after that.
        """
        self._meetings.barrier(self._meetings.later(timeout_seconds))
        self.read_center()
        self._at_peace = True

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Say that this worker has done ``steps`` steps; return what all have said."""
        return self._steps.announce(steps, self.rank)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._inside.check()

    def close(self) -> None:
        """Leave the job, if all others do so in a few seconds; and let go of the node's memory.

        Who has been at the center since all last met leaves alone: the run has not ended well.
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
        """Have rank 0 make a buffer, and open it."""
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
    """Make the box; SegmentError in words of a run where a node has no room for its share."""
    try:
        return RemoteBox.create(world, bytes_per_server, servers, timeout_seconds, check)
    except SegmentError as error:
        raise SegmentError(
            f"the center has no room, of which the first worker of each computer keeps a share in "
            f"/dev/shm: {error}; enlarge /dev/shm there (of a container: --shm-size), or take more "
            "computers"
        ) from error
