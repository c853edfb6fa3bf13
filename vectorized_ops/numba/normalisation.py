"""Batch normalisation: the statistics in one read, their gradient in one read of both arrays."""

from __future__ import annotations

import numba
import numpy as np

from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.layout import AnyArray, aligned_zeros, pixels
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.numba.kernels.arithmetic.batch_normalisation import LEVEL, SLOPE
from vectorized_ops.numba.kernels.arithmetic.epilogue import FLOOR, number_of
from vectorized_ops.numba.kernels.normalisation import batch_kernels as kernels
from vectorized_ops.numba.kernels.normalisation.batch_tiles import (
    GRADIENT_SUMS,
    NORMALISE,
    VALUES_GRADIENT,
)


class BatchNormalisation:
    """See `vectorized_ops.reference.normalisation.BatchNormalisation`; images run fastest.

    The statistics read the values once: sums of x - pivot and of its square, the pivot being the
    mean of a few pixels. With m of n values in the pivot, the squared distance of pivot and mean is
    at most n/m variances, so little is lost. Each thread sums pixels of its own: the result is the
    same to the last bit for the same number of threads, and nearly the same for another.
    """

    def __init__(self, images: int, height: int, width: int, channels: int, epsilon: float) -> None:
        threads = numba.get_num_threads()
        self._images, self._pixels, self._epsilon = images, height * width, epsilon
        self._real = np.zeros(0, np.int32)
        self._sums = aligned_zeros((threads, channels * kernels.SUMS))
        self._totals = np.zeros((threads, channels, 2))
        self._pivots = np.zeros(channels, np.float32)
        self._constants = aligned_zeros((kernels.CONSTANTS, channels))
        self._zero = self._one = self._unread = np.zeros(0, np.float32)

    def statistics(self, values: AnyArray, mean: AnyArray, variance: AnyArray) -> None:
        """Write mean and biased variance of each channel: one read."""
        kernels.statistics(
            *pixels(values), self._pixels, self._images, self._real_images(values), self._pivots,
            self._sums, self._totals, mean, variance,
        )  # fmt: skip

    def forward(
        self,
        values: AnyArray,
        mean: AnyArray,
        variance: AnyArray,
        scale: AnyArray,
        shift: AnyArray,
        out: AnyArray,
        addend: AnyArray | None = None,
        epilogue: Epilogue = IDENTITY,
    ) -> None:
        """Write the normalised values: one read (with an addend two) and one write."""
        source, target = pixels(values), pixels(out)
        other = source if addend is None else pixels(addend)
        past = streamed(target[0], out.nbytes, source[0], other[0])
        kernels.prepare(mean, variance, scale, shift, self._epsilon, self._constants)
        number, limits = _numbered(epilogue, -np.inf)
        stored = bfloat16_among(out=target[0], values=source[0], addend=other[0])
        kernels.forward(
            NORMALISE.address(number, bfloat16=stored), *source, *other, *target, self._pixels,
            len(values), self._constants, *limits, addend is not None, past, len(self._sums),
        )  # fmt: skip

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        mean: AnyArray,
        variance: AnyArray,
        scale: AnyArray,
        shift: AnyArray,
        epilogue: Epilogue,
        scale_out: AnyArray,
        shift_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        fixed: bool = False,
    ) -> None:
        """Write the gradients of scale, shift and values: four reads and one write."""
        source, above, target = pixels(values), pixels(gradient), pixels(out)
        past = not add and streamed(target[0], out.nbytes, source[0], above[0])
        real, (number, limits) = self._real_images(values), _numbered(epilogue, np.nan)
        read = bfloat16_among(values=source[0], gradient=above[0])
        stored = read + bfloat16_among(out=target[0])
        kernels.prepare(mean, variance, scale, shift, self._epsilon, self._constants)
        kernels.gradient_sums(
            GRADIENT_SUMS.address(number, bfloat16=read), *source, *above, self._pixels,
            self._images, real, self._constants, *limits, self._sums, self._totals, scale_out,
            shift_out,
        )  # fmt: skip
        if fixed:
            self._constants[[SLOPE, LEVEL]] = 0
        kernels.backward(
            VALUES_GRADIENT.address(number, bfloat16=stored), *source, *above, *target,
            self._pixels, real, self._constants, *limits, add, past, len(self._sums),
        )  # fmt: skip

    def product_sums(self, values: AnyArray, gradient: AnyArray, out: AnyArray) -> None:
        """Write the sums of gradient * values of each channel over the batch: two reads."""
        if not len(self._one):
            self._zero, self._unread = np.zeros_like(out), np.zeros_like(out)
            self._one = np.ones_like(out)
        zero, one = self._zero, self._one
        source, above = pixels(values), pixels(gradient)
        stored = bfloat16_among(values=source[0], gradient=above[0])
        number, limits = _numbered(IDENTITY, np.nan)
        kernels.prepare(zero, one, one, zero, 0.0, self._constants)
        kernels.gradient_sums(
            GRADIENT_SUMS.address(number, bfloat16=stored), *source, *above, self._pixels,
            self._images, self._real_images(values), self._constants, *limits, self._sums,
            self._totals, out, self._unread,
        )  # fmt: skip

    def _real_images(self, values: AnyArray) -> AnyArray:
        """Return -1 for each image of the batch, 0 for those that only fill up a vector."""
        if len(self._real) != len(values):
            inside = np.arange(len(values)) < self._images
            self._real = np.where(inside, np.int32(-1), np.int32(0))
        return self._real


def running_gradient(running: AnyArray, found: AnyArray, factor: float, out: AnyArray) -> None:
    """Write running - factor * found, rounded twice, for a statistic (C,) of each channel."""
    kernels.running_gradient(running, found, np.float32(factor), out)


def _numbered(epilogue: Epilogue, no_floor: float) -> tuple[int, tuple[np.float32, np.float32]]:
    """Return an epilogue's number, and (low, high), of `arithmetic.epilogue`."""
    number = number_of(epilogue)
    low, high = epilogue.slope, epilogue.ceiling
    if number == FLOOR:
        low, high = 0.0 if epilogue == RELU else no_floor, 0.0
    return number, (np.float32(low), np.float32(high))
