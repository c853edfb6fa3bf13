"""Memory that an operation needs during a call alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros


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
