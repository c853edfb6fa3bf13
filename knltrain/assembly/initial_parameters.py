"""A new run's initial parameters, drawn once for the workers of a process while these start."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.communication.shared_memory import anonymous_file
from knltrain.errors import SegmentError
from knltrain.network.parameters import ParameterVector

if TYPE_CHECKING:
    from knltrain.network.network import Network


@final
class InitialParameters:
    """Memory without a name that threads of this process fill, for `readers` that inherit `fds`.

    These are the memory's, and the reading end of a pipe that gives each reader a byte once it is
    filled. Whatever prevents that, readers find the pipe's end, and draw for themselves.
    """

    def __init__(self, network: Network, seed: int, readers: int) -> None:
        """Raises SegmentError or OSError where there is no memory, or no pipe."""
        self._network, self._seed, self._readers = network, seed, readers
        self._size = _bytes_of(network)
        memory = anonymous_file.create("memfd", Path("/dev/shm"), self._size, "knltrain-initial")
        self._open = [memory]
        try:
            self._open += os.pipe()
        except OSError:
            self._close()
            raise
        self._stopped = Event()
        self._thread = Thread(target=self._fill, name="initial parameters")

    @property
    def fds(self) -> tuple[int, int]:
        """Those that readers inherit, until `begin`."""
        memory, ready, _ = self._open
        return memory, ready

    def begin(self) -> None:
        """Begin to draw; this process's own descriptors are closed at the end of that."""
        try:
            self._thread.start()
        except RuntimeError:  # the system has no more threads
            self._close()

    def close(self) -> None:
        """Stop drawing, if it goes on."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._close()

    def _fill(self) -> None:
        memory, _, tells = self._open
        try:
            anonymous_file.reserve(memory, 0, self._size)
            values = np.frombuffer(mmap.mmap(memory, self._size), np.float32)
            if ParameterVector(self._network, values).initialise(self._seed, self._stopped):
                os.write(tells, bytes(self._readers))
        except (SegmentError, OSError, MemoryError, RuntimeError):
            pass
        finally:
            self._close()

    def _close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def drawn_elsewhere(network: Network, memory: int, ready: int) -> ParameterVector | None:
    """The parameters behind these `fds`, which are closed, as soon as they are drawn; read-only.

    None where they will not be.
    """
    try:
        if not os.read(ready, 1):
            return None
        mapping = mmap.mmap(memory, _bytes_of(network), prot=mmap.PROT_READ)
        return ParameterVector(network, np.frombuffer(mapping, np.float32))
    finally:
        os.close(memory)
        os.close(ready)


def _bytes_of(network: Network) -> int:
    return anonymous_file.FLOAT_BYTES * network.packed_size
