"""A progress thread of MPI: it serves the operations of others while this process computes."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from knltrain.communication.mpi.polling import FAILED, address_of, progress_until, scratch
from knltrain.communication.shared_memory.atomics import publish
from knltrain.errors import PeerLost

LONGEST_NAP_MICROSECONDS = 500
_END_SECONDS = 10.0


@final
class Progress:
    """The progress thread of a passive target, from its construction until `stop`.

    Over TCP a one-sided operation is done at the target only when a thread there calls MPI, and a
    process that computes does not. (Within a computer no such call is needed.) The thread calls MPI
    without the GIL: continuously while data arrive, every half millisecond while none do. ``group``
    is a communicator of its own, in which no rank sends messages.
    """

    def __init__(self, mpi: Any, group: Any) -> None:
        self._mpi, self._stop, self._results = mpi, np.zeros(1, np.int64), scratch()
        self._arguments = (
            address_of(mpi, "MPI_Iprobe"), mpi._handleof(group), mpi.ANY_SOURCE, 0,
            LONGEST_NAP_MICROSECONDS, self._stop, self._results,
        )  # fmt: skip
        self._failed = False
        publish(self._stop, 0, 1)
        progress_until(*self._arguments)  # compiled now, not while this process computes
        publish(self._stop, 0, 0)
        self._thread = threading.Thread(target=self._run, name="MPI progress", daemon=True)
        self._thread.start()
        atexit.register(self._end)  # MPI must not be called after it is finalised

    def stop(self) -> None:
        """End the thread; raises PeerLost if MPI has failed in it."""
        self._end()
        atexit.unregister(self._end)
        self.check()

    def check(self) -> None:
        """Raise PeerLost if MPI has failed in the thread."""
        if self._failed:
            raise failure(self._mpi, int(self._results[2]))

    def _end(self) -> None:
        publish(self._stop, 0, 1)
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        self._failed = progress_until(*self._arguments) == FAILED


def failure(mpi: Any, code: int) -> PeerLost:
    """Return the error to raise for an error code of MPI."""
    return PeerLost(f"MPI failed: {mpi.Get_error_string(code)}; another process may be gone")


@contextmanager
def mpi_errors(mpi: Any) -> Iterator[None]:
    """Translate errors that MPI raises at once into PeerLost."""
    try:
        yield
    except mpi.Exception as error:
        raise PeerLost(f"MPI failed: {error}; another process may be gone") from error
