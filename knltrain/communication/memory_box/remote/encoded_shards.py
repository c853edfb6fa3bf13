"""Reads of a buffer of the box across nodes, and additions to it, encoded in fewer bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from knltrain.communication.internode.collective import ByteArray
from knltrain.communication.internode.wire.wire_format import CenterFormats, row_for
from knltrain.communication.memory_box.remote.buffer import RemoteBuffer
from knltrain.communication.memory_box.remote.shard_server import (
    ADD,
    ADDED,
    CONTENT,
    READ,
    ShardServer,
    nothing,
)
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.progress import mpi_errors
from knltrain.errors import KnltrainError
from knltrain.vectors import FloatArray, aligned_zeros

LARGEST_MESSAGE = 2**31 - 1
"""Bytes that a call of MPI counts."""


@dataclass(frozen=True, slots=True)
class _FarShard:
    """The elements ``part`` at rank ``owner``; room to send them encoded, and to receive them."""

    owner: int
    part: slice
    given: ByteArray
    found: ByteArray


@final
class EncodedShards:
    """A float32 ``buffer`` of the ranks of ``comm``, most of which lie on other nodes.

    No rank can decode in the memory of another. So shards of other nodes are reached by messages to
    a `ShardServer` of their owner. Shards of the ranks ``near`` are on this node, and are read and
    added to in float32, in place. Making it, and `close`, are collective. One thread at a time may
    work on it. Others may be late by ``timeout_seconds``; while it waits it calls ``check`` now and
    then, which may raise. Raises ExchangeTimeout, PeerLost, and what ``check`` raises.
    """

    residual: FloatArray
    """The encoding errors so far, (n,), added to what is encoded next; (0,) if none are kept."""

    def __init__(
        self,
        mpi: Any,
        comm: Any,
        buffer: RemoteBuffer,
        near: Collection[int],
        formats: CenterFormats,
        timeout_seconds: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._mpi, self._buffer, self._formats = mpi, buffer, formats
        self._check_run = check
        self._completion = Completion(mpi, timeout_seconds, self.check)
        self._server: ShardServer | None = None
        self._group, request = comm.Idup()
        self._completion.of([request], lambda: "the other ranks")
        self.residual = aligned_zeros(buffer.size if formats.added.keeps_residual else 0)
        shards = list(zip(buffer.owners, buffer.parts, strict=True))
        self._near = [part for owner, part in shards if owner in near]
        self._far = [self._far_shard(owner, part) for owner, part in shards if owner not in near]
        for owner, part in shards:
            if owner == self._group.rank:
                self._server = ShardServer(
                    mpi, self._group, buffer, part, formats, timeout_seconds, check
                )

    def read(self, out: FloatArray) -> None:
        """Copy all elements to ``out`` (n,), those of other nodes as they are encoded."""
        requests = []
        with mpi_errors(self._mpi):
            for far in self._far:
                requests.append(self._group.Irecv(far.found, far.owner, CONTENT))
                requests.append(self._group.Isend(nothing(), far.owner, READ))
        for part in self._near:
            self._buffer.lend(part.start, part.stop - part.start, out[part])
        self._finish(requests)
        for far in self._far:
            total = out[far.part]
            total.fill(0)
            self._formats.read.decode_add(far.found, total)

    def encode(self, values: FloatArray) -> None:
        """Encode what `add` sends of ``values`` (n,) and of the residual.

        What is near takes the residual of a time when it was not: ``values`` then change.
        """
        for far in self._far:
            self._formats.added.encode(values[far.part], self._rest(far.part), far.given)
        if self.residual.size:
            for part in self._near:
                np.add(values[part], self.residual[part], out=values[part])
                self.residual[part] = 0

    def add(self, values: FloatArray, sent: Callable[[], None] = lambda: None) -> None:
        """Add ``values`` (n,), which were encoded last; returns when all owners have done so.

        Calls ``sent`` when what is encoded has left; the addition follows.
        """
        with mpi_errors(self._mpi):
            given = [self._group.Isend(far.given, far.owner, ADD) for far in self._far]
        self._finish(given)
        sent()
        for part in self._near:
            self._buffer.add(values[part], part.start)
        with mpi_errors(self._mpi):
            done = [self._group.Irecv(nothing(), far.owner, ADDED) for far in self._far]
        self._finish(done)

    def check(self) -> None:
        """Raise what has ended this rank's server, or what ``check`` raises."""
        if self._server is not None:
            self._server.check()
        self._check_run()

    def close(self) -> None:
        """Leave the others (collective), when no rank works on it any more."""
        self.abandon()
        with mpi_errors(self._mpi):
            self._group.Free()

    def abandon(self) -> None:
        """Stop this rank's server, after a failure (not collective)."""
        if self._server is not None:
            self._server.stop()

    def _far_shard(self, owner: int, part: slice) -> _FarShard:
        size = part.stop - part.start
        sizes = [each.bytes_for(size) for each in (self._formats.added, self._formats.read)]
        if max(sizes) > LARGEST_MESSAGE:
            raise KnltrainError(
                f"a shard of {size} parameters makes a message of {max(sizes)} bytes: expected at "
                f"most {LARGEST_MESSAGE}, as MPI counts; let more nodes keep shards "
                "(exchange.servers), or choose exchange.wire_format = 'float32'"
            )
        return _FarShard(owner, part, *map(row_for, sizes))

    def _rest(self, part: slice) -> FloatArray:
        return self.residual[part] if self.residual.size else self.residual

    def _finish(self, requests: Sequence[Any]) -> None:
        owners = ", ".join(str(far.owner) for far in self._far)
        self._completion.of(requests, lambda: f"an answer of rank {owners}, which keep shards")
