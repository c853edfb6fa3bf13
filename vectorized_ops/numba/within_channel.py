"""Local response normalisation within a channel, in chunks of images and channels."""

from __future__ import annotations

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros, pixels
from vectorized_ops.numba.kernels.normalisation import within_channel_kernels as kernels
from vectorized_ops.reference.within_channel import check_side


class WithinChannelNormalisation:
    """See `vectorized_ops.reference.within_channel.WithinChannelNormalisation`.

    Beta 0.75, that of Caffe's CIFAR networks, is fast. Other exponents are powers computed value by
    value.
    """

    def __init__(self, side: int, alpha: float, beta: float) -> None:
        check_side(side)
        self._side, self._beta = side, np.float32(beta)
        self._factor = np.float32(alpha / (side * side))
        self._scratch = aligned_zeros((0,))

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write x * s^-beta."""
        number, (height, width, channels) = len(out), out.shape[1:]
        kernels.forward(
            *pixels(values), *pixels(out), height, width, channels * number, self._side,
            self._factor, self._beta, self._maps(height * width), numba.get_num_threads(),
        )  # fmt: skip

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the values; s is computed again."""
        target = pixels(out)
        cut = target if mask is None else pixels(mask)
        number, (height, width, channels) = len(out), out.shape[1:]
        kernels.backward(
            *pixels(values), *pixels(gradient), *target, *cut, height, width, channels * number,
            self._side, self._factor, self._beta, add, mask is not None,
            self._maps(height * width), numba.get_num_threads(),
        )  # fmt: skip

    def _maps(self, pixels: int) -> AnyArray:
        """Return what each thread keeps of a chunk of maps."""
        size = numba.get_num_threads() * kernels.SCRATCH * pixels * kernels.CHUNK
        if len(self._scratch) != size:
            self._scratch = aligned_zeros((size,))
        return self._scratch
