"""Mean and variance of each channel, gathered by the operation that writes the values.

Values that are still in registers need not be read again. For each channel a thread adds up
x - pivot and its square, in float32 and lane by lane. After some values it merges the sums into its
totals by the pairwise update of Chan, Golub and LeVeque ("Updating Formulae and a Pairwise
Algorithm for Computing Sample Variances", 1979) in doubles, and its mean becomes the pivot. The
first pivot is a channel's first value. As that may be an outlier, it is used for the first block of
pixels alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES

SUMS = 2 * LANES
"""Floats per channel: a vector of sums of x - pivot, and one of their squares."""

SUMMED_VALUES = 4096
"""Values of a channel after which its sums go into doubles, at the end of a block of pixels."""


class Moments:
    """The moments of values (N', H, W, C) of which `images` are real, gathered by `threads`.

    What writes the values makes them, see `Convolution.moments`, and clears them in each call.
    `real` (N',) int32 is -1 for these, else 0. Of each thread `sums` (T, C*SUMS) are its sums,
    `pivots` (T, C) what it subtracts, `totals` (T, C, 3) doubles the count of values, their mean
    and their squared distances from it. Results are the same to the last bit for the same number
    of threads.
    """

    def __init__(self, threads: int, padded: int, images: int, channels: int) -> None:
        self.images = images
        self.real = np.where(np.arange(padded) < images, np.int32(-1), np.int32(0))
        self.sums = aligned_zeros((threads, channels * SUMS))
        self.pivots = np.zeros((threads, channels), np.float32)
        self.totals = np.zeros((threads, channels, 3))

    def check(self, threads: int, padded: int, channels: int) -> None:
        """Raise OperationError if these were not made for such values and so many threads."""
        found, expected = (*self.pivots.shape, len(self.real)), (threads, channels, padded)
        if found != expected:
            raise OperationError(
                f"moments for (threads, channels, images) {found} were given to an operation with "
                f"{expected}: have the operation itself make them"
            )

    def write(self, mean: AnyArray, variance: AnyArray) -> None:
        """Write mean and biased variance of each channel, of what was gathered last."""
        _join_threads(self.totals, mean, variance)


@kernel
def join_sums(
    sums: Any, pivots: Any, totals: Any, first: int, last: int, pixels: int, images: int
) -> None:
    """Join what a thread has of channels first..last-1 with its sums of `pixels` pixels."""
    number = pixels * images
    for c in range(first, last):
        shifted, square = 0.0, 0.0
        for lane in range(LANES):
            shifted += np.float64(sums[c * SUMS + lane])
            square += np.float64(sums[c * SUMS + LANES + lane])
        sums[c * SUMS : (c + 1) * SUMS] = 0.0
        shifted /= number
        spread = square - shifted * shifted * number
        own = totals[c]
        own[0], own[1], own[2] = _joined(
            own[0], own[1], own[2], number, pivots[c] + shifted, 0.0 if spread < 0.0 else spread
        )
        pivots[c] = own[1]


@kernel
def _joined(
    count: float, mean: float, spread: float, number: float, other_mean: float, other_spread: float
) -> tuple[float, float, float]:
    """Count, mean and squared distances of all values of two sets; Chan et al., eq. 2.1."""
    whole, distance = count + number, other_mean - mean
    share = number / whole
    return (
        whole,
        mean + distance * share,
        spread + other_spread + distance * distance * count * share,
    )


@kernel
def _join_threads(totals: Any, mean: Any, variance: Any) -> None:
    for c in range(len(mean)):
        count, middle, spread = 0.0, 0.0, 0.0
        for thread in range(len(totals)):
            own = totals[thread, c]
            if own[0] > 0.0:
                count, middle, spread = _joined(count, middle, spread, own[0], own[1], own[2])
        mean[c], variance[c] = middle, spread / count
