"""A new run's initial parameters, drawn once for the workers of a node while these start."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.communication.shared_memory import anonymous_file
from knltrain.errors import SegmentError
from knltrain.network.parameters import ParameterVector

if TYPE_CHECKING:
    from knltrain.network.network import Network

FLOAT_BYTES = 4


@final
class InitialParameters:
    """Memory without a name that threads of this process fill; `readers` others map it.

    `fds` are those of the memory and of the end of a pipe, from which each reader takes a byte as
    soon as it is filled.
    """

    def __init__(self, network: Network, seed: int, readers: int) -> None:
        """Raises SegmentError where there is no memory for it."""
        self._network, self._seed, self._readers = network, seed, readers
        self._size = FLOAT_BYTES * network.packed_size
        self._memory = anonymous_file.create("memfd", Path("/dev/shm"), self._size)
        self._filled, self._fills = os.pipe()
        self._thread = Thread(target=self._fill, name="initial parameters")

    @property
    def fds(self) -> tuple[int, int]:
        """Those that readers inherit."""
        return self._memory, self._filled

    def begin(self) -> None:
        """Begin to draw."""
        self._thread.start()

    def close(self) -> None:
        """Wait for what was begun; the memory lasts as long as a reader has it."""
        if self._thread.ident is None:
            os.close(self._fills)
        else:
            self._thread.join()
        os.close(self._memory)
        os.close(self._filled)

    def _fill(self) -> None:
        try:
            anonymous_file.reserve(self._memory, 0, self._size)
            values = np.frombuffer(mmap.mmap(self._memory, self._size), np.float32)
            ParameterVector(self._network, values).initialise(self._seed)
            os.write(self._fills, bytes(self._readers))
        except (SegmentError, OSError, MemoryError):
            pass  # Readers find the pipe's end, and draw for themselves.
        finally:
            os.close(self._fills)


def drawn_elsewhere(network: Network, memory: int, filled: int) -> ParameterVector | None:
    """The parameters behind these descriptors, which are closed, as soon as they are drawn.

    None where whoever drew them had no memory, or is gone.
    """
    try:
        if not os.read(filled, 1):
            return None
        size = FLOAT_BYTES * network.packed_size
        mapping = mmap.mmap(memory, size, prot=mmap.PROT_READ)
        return ParameterVector(network, np.frombuffer(mapping, np.float32))
    finally:
        os.close(memory)
        os.close(filled)
