"""Memory that an operation needs during a call alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros

_LINE = 16
"""Floats of a cache line."""


def size_of_pieces(sizes: Sequence[int]) -> int:
    """Return how many floats pieces of `sizes` take, each of whole cache lines."""
    return sum(map(_whole_lines, sizes))


def _whole_lines(size: int) -> int:
    return -(-size // _LINE) * _LINE


class ScratchUser(ABC):
    """An operation whose calls need `scratch_size` floats, which hold nothing between calls.

    Give many operations the same memory by `use_scratch`; otherwise each makes its own when it is
    first called.
    """

    _scratch: AnyArray = np.empty(0, np.float32)

    @property
    @abstractmethod
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""

    def use_scratch(self, memory: AnyArray) -> None:
        """Work in flat float32 `memory` of at least `scratch_size`, aligned to 64 bytes."""
        self._scratch = memory

    def _memory(self, size: int) -> AnyArray:
        if len(self._scratch) < size:
            self._scratch = aligned_zeros((self.scratch_size,))
        return self._scratch[:size]

    def _pieces(self, sizes: Sequence[int]) -> list[AnyArray]:
        """Return pieces of the memory, of `sizes`, that begin at cache lines."""
        memory, first, pieces = self._memory(size_of_pieces(sizes)), 0, []
        for size in sizes:
            pieces.append(memory[first : first + size])
            first += _whole_lines(size)
        return pieces
