"""The transport of workers on several nodes that visit the center: one-sided MPI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.clocks import WRITE_INCREMENT, Clock
from knltrain.communication.communication_cores import made_there
from knltrain.communication.internode.wire.wire_format import CenterFormats
from knltrain.communication.memory_box.remote import RemoteBox, RemoteBuffer, Vector
from knltrain.communication.memory_box.remote.encoded_shards import EncodedShards
from knltrain.communication.mpi.joining import leave_mpi
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, KnltrainError, SegmentError
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

    The center is a buffer of a `RemoteBox`; the first worker of each node has a shard of it, or
    only those of the nodes ``servers``, by their numbers. This is ShmCaffe's parameter server,
    sharded over the nodes. ``center`` and ``kept`` are this worker's copies, as they were last
    read.

    - Where the center is a sum (`ExchangeRule.adds`), a visit reads it, contributes against the
      copy, and has the contribution added where the center lies, each element atomically. So every
      contribution arrives whole, in any order; the copy does not have what others add meanwhile.
    - Else a visit reads a shard of all vectors, does the whole exchange, and writes it back, while
      it holds the shard's lock ("first_come") or nothing ("lock_free").
    - By "round_robin" it does so in its turn, without locks.

    With ``formats`` contributions to shards of other nodes, and what is read of them, are encoded.
    Then the center must be a sum, and visits by turns are as those of a sum. The start, meetings
    and shards of this node are in float32.

    ``inside`` is the worker in its node's segment, which has its local, and reports an abort of the
    run. If it has a spare, that is ``center``, so that all workers of its group can read it. Others
    may be late by ``timeout_seconds``. ``center_vectors`` is that of the rule.
    """

    def __init__(
        self,
        inside: NodeShared,
        mpi: Any,
        timeout_seconds: float,
        center_vectors: int = 1,
        servers: Sequence[int] | None = None,
        formats: CenterFormats | None = None,
    ) -> None:
        self._inside = inside
        self._meetings = MpiTeam(mpi, timeout_seconds, inside.check)
        self.rank, self.workers = self._meetings.rank, self._meetings.workers
        self.clocks = inside.clocks
        self.local, self.spare = inside.local, inside.local[:0]
        size = self.local.size
        self.center = inside.spare if inside.spare.size else aligned_zeros(size)
        self.kept = np.zeros((center_vectors - 1, size), np.float32)
        firsts = list(range(0, self.workers, inside.workers))
        if servers is not None:
            firsts = [firsts[node] for node in servers]
        vector = -(-size // len(firsts)) * _FLOAT_BYTES + _ROOM_BYTES
        room = center_vectors * vector + self.workers * _WORD_BYTES
        self._box = _box(mpi.COMM_WORLD, room, firsts, timeout_seconds, inside.check)
        make = self._box.create_buffer
        self._shared = self._opened(partial(make, size))
        self._beside = [self._opened(partial(make, size)) for _ in self.kept]
        self._steps = self._opened(partial(make, self.workers, np.int64))
        self._turn = self._opened(partial(make, 1, np.int64))
        self._own = make(size, private=True)
        self._timeout_seconds = timeout_seconds
        self._encoded = None if formats is None else self._encoded_by(mpi, formats)
        self._at_peace = True

    @property
    def residual(self) -> FloatArray:
        """The residual of this worker's contributions."""
        return super().residual if self._encoded is None else self._encoded.residual

    def read_center(self) -> None:
        """Update the copy ``center``."""
        if self._encoded is None:
            self._shared.read(self.center)
        else:
            self._encoded.read(self.center)

    def read_kept(self) -> None:
        """Update the copies ``kept``."""
        for buffer, copy in zip(self._beside, self.kept, strict=True):
            buffer.read(copy)

    def publish(self) -> None:
        """Write this worker's copies where all others read them."""
        self._write(WHOLE)

    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Exchange with the center."""
        self._at_peace = False
        if order == "round_robin":
            self.await_turn()
            if self._encoded is None:
                self._visit_part(WHOLE, rule, contribution)
            else:
                self._visit_sum(rule, contribution, order)
            self._turn.write(np.array([self._turn_now() + 1]))
        elif rule.adds:
            self._visit_sum(rule, contribution, order)
        else:
            parts = self._shared.parts
            first = self.rank * len(parts) // self.workers  # so that few wait for the same one
            for number in (*range(first, len(parts)), *range(first)):
                with ExitStack() as held:
                    if order == "first_come":
                        with self.clocks.waiting:
                            held.enter_context(self._shared.alone(number))
                    self._visit_part(parts[number], rule, contribution)

    def _visit_part(self, part: slice, rule: ExchangeRule, contribution: FloatArray) -> None:
        """Do the whole exchange on a part of all vectors."""
        self._read(part)
        for each, piece in rule.on(part):
            center, kept = self.center[piece], self.kept[:, piece]
            each.visit(self.local[piece], center, kept, contribution[piece])
        self._write(part)

    def _read(self, part: slice) -> None:
        for buffer, copy in self._all_vectors():
            buffer.read(copy[part], part.start or 0)

    def _write(self, part: slice) -> None:
        for buffer, copy in self._all_vectors():
            buffer.write(copy[part], part.start or 0)

    def _all_vectors(self) -> Iterator[tuple[Vector, FloatArray]]:
        return zip((self._shared, *self._beside), (self.center, *self.kept), strict=True)

    def _visit_sum(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Read the center, contribute to it, and follow it if the rule does."""
        self.read_center()
        for each, part in rule.on(WHOLE):
            each.contribute(self.local[part], self.center[part], contribution[part])
        self.encode(rule, contribution)
        self.push(rule, contribution, order)
        if rule.follows:
            self.read_center()
            for each, part in rule.on(WHOLE):
                each.follow(self.local[part], self.center[part], contribution[part])

    def encode(self, rule: ExchangeRule, contribution: FloatArray) -> None:
        """Encode a contribution, if it is to be; the local may take back what is left out."""
        if self._encoded is None:
            return
        self._encoded.encode(contribution)
        if rule.takes_back and self.residual.size:
            np.add(self.local, self.residual, out=self.local)
            self.residual.fill(0)

    def push(
        self,
        rule: ExchangeRule,  # noqa: ARG002
        contribution: FloatArray,
        order: Order,  # noqa: ARG002
        waiting: Clock | None = None,  # noqa: ARG002
    ) -> None:
        """Add a contribution to the center, a sum, where it lies."""
        self._at_peace = False
        if self._encoded is not None:
            self._encoded.add(contribution, partial(self.push_marks.mark, WRITE_INCREMENT))
            return
        self._own.write(contribution)
        self.push_marks.mark(WRITE_INCREMENT)
        self._shared.accumulate(self._own)

    def await_turn(self) -> None:
        """Wait until it is this worker's turn to visit by "round_robin"."""
        with self.clocks.waiting:
            while (turn := self._turn_now()) % self.workers != self.rank:
                limit, passed = self._timeout_seconds, partial(self._is_past, turn)
                if not nap_until(passed, self.check, self.check, limit):
                    raise ExchangeTimeout(
                        f"waited {limit:g} s in vain for worker {turn % self.workers}, whose turn "
                        "it is to visit the center; if it can be so late, raise "
                        "exchange.timeout_seconds"
                    )

    def _turn_now(self) -> int:
        found = np.zeros(1, np.int64)
        self._turn.read(found)
        return int(found[0])

    def _is_past(self, turn: int) -> bool:
        return self._turn_now() != turn

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0 (collective)."""
        self.barrier()  # all visits of late workers end before
        self.residual.fill(0)
        if self.rank == 0:
            np.copyto(self.center, check_start_values(values, self.center.size))
            self.kept[:] = 0
            self.publish()
        self.barrier()
        np.copyto(self.local, self.center)
        self.all_sum(np.zeros(1))  # nobody moves the center before all have read it

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers in rank order (collective)."""
        return self._meetings.all_sum(values)

    def link_rate(self, size: int) -> float | None:
        """Bytes per second at which this node sends about ``size`` bytes, see `Team.link_rate`."""
        return self._meetings.link_rate(size, self._inside.workers)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here, and then read the center and ``kept`` (collective).

        All read the same values only if no worker visits the center before all have read. To
        evaluate or save it, call the barrier once more after that.
        """
        self._meetings.barrier(self._meetings.later(timeout_seconds))
        self._read(WHOLE)
        self._at_peace = True

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all."""
        return self._steps.announce(steps, self.rank)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted, and errors of the server."""
        if self._encoded is not None:
            self._encoded.check()
        self._inside.check()

    def close(self) -> None:
        """Leave the job, if all others do so in a few seconds; release the node's memory.

        A worker that has visited the center since the last barrier leaves without the others: the
        run has failed then.
        """
        self.local = self.spare = self.center = np.zeros(0, np.float32)
        self.kept = np.zeros((0, 0), np.float32)
        at_peace, self._at_peace = self._at_peace, False
        encoded, self._encoded = self._encoded, None
        try:
            if at_peace:
                self._meetings.barrier(_LEAVE_SECONDS)
                if encoded is not None:
                    encoded.close()
                self._box.close()
                leave_mpi(_LEAVE_SECONDS)
            else:
                self._abandon(encoded)
        except KnltrainError:
            self._abandon(encoded)
        finally:
            self._inside.close()

    def _abandon(self, encoded: EncodedShards | None) -> None:
        if encoded is not None:
            encoded.abandon()
        self._box.abandon()

    def _encoded_by(self, mpi: Any, formats: CenterFormats) -> EncodedShards:
        """Return the center as workers of other nodes reach it (collective)."""
        shared, here = self._shared, self._inside.workers
        assert isinstance(shared, RemoteBuffer)
        first = self.rank // here * here
        near, limit = range(first, first + here), self._timeout_seconds
        check = self._inside.check
        return made_there(
            lambda: EncodedShards(mpi, mpi.COMM_WORLD, shared, near, formats, limit, check)
        )

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
    """Make the box; SegmentError with advice if a node has no room for its share.

    Its progress thread runs on the cores for communication, or on all of the worker's.
    """
    make = partial(RemoteBox.create, world, bytes_per_server, servers, timeout_seconds, check)
    try:
        return made_there(make)
    except SegmentError as error:
        raise SegmentError(
            f"no room for the center; the first worker of each computer keeps a share of it in "
            f"/dev/shm: {error}; enlarge /dev/shm there (of a container: --shm-size), or take more "
            "computers, or name more of them in exchange.servers"
        ) from error
