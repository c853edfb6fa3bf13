"""Gradient accumulation: the mean gradient of several batches of one step."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.backends.backend import Ready
from knltrain.vectors import FloatArray, aligned_zeros


@final
class GradientSum:
    """The sum of the gradients (n,) of all but the last of `batches` batches of a step."""

    def __init__(self, size: int, batches: int) -> None:
        self._sum = aligned_zeros(size)
        self._share = np.float32(1 / batches)

    def begin(self) -> None:
        """Begin a step."""
        self._sum.fill(0)

    def add(self, gradient: FloatArray) -> None:
        """Add the gradient of a batch: two reads and a write per value."""
        self._sum += gradient

    def completing(self, gradient: FloatArray, ready: Ready) -> Ready:
        """Return what a backend calls instead of `ready` while it computes the last `gradient`.

        The part that is done becomes the mean of all batches before `ready` is told of it. Call it
        with 0 when the whole is done, which does nothing where that was so already.
        """
        end = gradient.size

        def complete(offset: int) -> None:
            nonlocal end
            if offset < end:
                done = slice(offset, end)
                np.add(self._sum[done], gradient[done], out=gradient[done])
                gradient[done] *= self._share
                end = offset
            ready(offset)

        return complete
