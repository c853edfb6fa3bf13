"""Local response normalisation: one read and one write forward, two reads and one write back."""

from __future__ import annotations

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros, pixels
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.numba.kernels.normalisation import lrn_kernels as kernels
from vectorized_ops.numba.kernels.normalisation.lrn_tiles import SIZE
from vectorized_ops.reference.lrn import check_size

_FAST_BETA = 0.75


class LocalResponseNormalisation:
    """See `vectorized_ops.reference.lrn.LocalResponseNormalisation`; images run fastest in memory.

    Size 5 and beta 0.75, those of AlexNet and GoogLeNet, are fast. Other exponents are powers
    computed value by value.
    """

    def __init__(self, size: int, alpha: float, beta: float, bias: float) -> None:
        check_size(size)
        self._size, self._beta = size, beta
        self._factor, self._bias = np.float32(alpha / size), np.float32(bias)
        self._scratch = aligned_zeros((0, 0, 0))

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write x * s^-beta."""
        source, target = pixels(values), pixels(out)
        number, (height, width, channels) = len(out), out.shape[1:]
        if self._is_fast(channels):
            kernels.forward(
                *source, *target, height * width, channels, number, self._factor, self._bias,
                streamed(target[0], out.nbytes), numba.get_num_threads(),
            )  # fmt: skip
        else:
            kernels.any_forward(
                *source, *target, height * width, channels, number, self._size, self._factor,
                np.float32(self._beta), self._bias, self._scratch_for(out),
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
        source, above, target = pixels(values), pixels(gradient), pixels(out)
        cut = target if mask is None else pixels(mask)
        number, (height, width, channels) = len(out), out.shape[1:]
        if self._is_fast(channels):
            past = not add and streamed(target[0], out.nbytes)
            kernels.backward(
                *source, *above, *target, *cut, height * width, channels, number, self._factor,
                self._bias, add, mask is not None, past, numba.get_num_threads(),
            )  # fmt: skip
        else:
            kernels.any_backward(
                *source, *above, *target, *cut, height * width, channels, number, self._size,
                self._factor, np.float32(self._beta), self._bias, add, mask is not None,
                self._scratch_for(out),
            )  # fmt: skip

    def _is_fast(self, channels: int) -> bool:
        return self._size == SIZE <= channels and self._beta == _FAST_BETA

    def _scratch_for(self, out: AnyArray) -> AnyArray:
        """Return what each thread keeps of a pixel."""
        shape = numba.get_num_threads(), kernels.SCRATCH, out.shape[0] * out.shape[3]
        if self._scratch.shape != shape:
            self._scratch = aligned_zeros(shape)
        return self._scratch
