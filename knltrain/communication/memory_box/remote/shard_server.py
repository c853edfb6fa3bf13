"""A thread at the owner of a shard: it adds what others send encoded, and sends them the shard."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any, final

import numpy as np

from knltrain.communication.internode.collective import ByteArray
from knltrain.communication.internode.wire.wire_format import CenterFormats, row_for
from knltrain.communication.memory_box.remote.buffer import RemoteBuffer
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.progress import LONGEST_NAP_MICROSECONDS, mpi_errors
from knltrain.errors import KnltrainError
from knltrain.vectors import aligned_zeros

ADD, READ, ADDED, CONTENT = range(1, 5)
"""Tags: what is to be added, and that it was; a request for the content of a shard, and that."""

_SHORTEST_NAP_SECONDS = 50e-6
_END_SECONDS = 10.0


@final
class ShardServer:
    """Serves the elements ``part`` of a ``buffer``, which lie at this rank, until `stop`.

    The thread receives messages of other ranks in the communicator ``group``, which is for them
    alone. It decodes what is to be added, and adds it in float32, each element atomically beside
    others that add; then it answers. It sends the content as ``formats.read`` has it. It sleeps for
    up to half a millisecond while nothing comes. A sender may be late by ``timeout_seconds``; while
    the thread waits for one it calls ``check`` now and then, which may raise.
    """

    def __init__(
        self,
        mpi: Any,
        group: Any,
        buffer: RemoteBuffer,
        part: slice,
        formats: CenterFormats,
        timeout_seconds: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check_run = check
        self._mpi, self._group, self._buffer = mpi, group, buffer
        self._begin, self._formats = part.start, formats
        size = part.stop - part.start
        self._values = aligned_zeros(size)
        self._added = row_for(formats.added.bytes_for(size))
        self._content = row_for(formats.read.bytes_for(size))
        self._stopping = threading.Event()
        self._completion = Completion(mpi, timeout_seconds, self._check_going_on)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="shard server", daemon=True)
        self._thread.start()
        atexit.register(self._end)  # MPI must not be called after it is finalised

    def check(self) -> None:
        """Raise the error that has ended the thread, if any."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End the thread; KnltrainError where it does not end."""
        self._end()
        if self._thread.is_alive():
            raise KnltrainError(
                f"the shard server did not end within {_END_SECONDS:g} s: expected no message on "
                "its way when all have left the center"
            )
        atexit.unregister(self._end)

    def _end(self) -> None:
        self._stopping.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        nap_seconds = _SHORTEST_NAP_SECONDS
        try:
            while not self._stopping.is_set():
                if self._served():
                    nap_seconds = _SHORTEST_NAP_SECONDS
                else:
                    self._stopping.wait(nap_seconds)
                    nap_seconds = min(2 * nap_seconds, LONGEST_NAP_MICROSECONDS / 1e6)
        except BaseException as error:  # noqa: BLE001  # the worker raises it
            if not self._stopping.is_set():
                self._failure = error

    def _served(self) -> bool:
        """Serve one request of each kind, if there is one."""
        found = [self._come(tag) for tag in (ADD, READ)]
        adds, reads = found
        if adds is not None:
            self._add(*adds)
        if reads is not None:
            self._send(*reads)
        return found != [None, None]

    def _come(self, tag: int) -> tuple[Any, int] | None:
        """Return a message that has come and its sender."""
        status = self._mpi.Status()
        with mpi_errors(self._mpi):
            message = self._group.Improbe(self._mpi.ANY_SOURCE, tag, status)
        return None if message is None else (message, status.source)

    def _add(self, message: Any, source: int) -> None:
        self._receive(message, self._added, source)
        self._values.fill(0)
        self._formats.added.decode_add(self._added, self._values)
        self._buffer.add(self._values, self._begin)
        self._answer(nothing(), source, ADDED)

    def _send(self, message: Any, source: int) -> None:
        self._receive(message, nothing(), source)
        self._buffer.lend(self._begin, self._values.size, self._values)
        self._formats.read.encode(self._values, self._values[:0], self._content)
        self._answer(self._content, source, CONTENT)

    def _receive(self, message: Any, out: ByteArray, source: int) -> None:
        with mpi_errors(self._mpi):
            request = message.Irecv(out)
        self._completion.of([request], lambda: f"what rank {source} sends")

    def _answer(self, given: ByteArray, source: int, tag: int) -> None:
        with mpi_errors(self._mpi):
            request = self._group.Isend(given, source, tag)
        self._completion.of([request], lambda: f"rank {source} to receive its answer")

    def _check_going_on(self) -> None:
        if self._stopping.is_set():
            raise KnltrainError("the shard server was stopped while it waited")
        self._check_run()


def nothing() -> ByteArray:
    """Return a message without content."""
    return np.zeros(0, np.uint8)
