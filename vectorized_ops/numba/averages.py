"""Moving and running averages of a vector over time, in one pass over memory, compiled by Numba.

Results are those of ``vectorized_ops.reference.averages``, to the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import contiguous

Vector = npt.NDArray[np.float32]


@kernel
def moving_average(average: Vector, moved: Vector, rate: float) -> None:
    """As ``vectorized_ops.reference.averages.moving_average``; 3 memory accesses per element.

    Raises ValueError for shapes that do not fit.
    """
    if average.shape[0] != moved.shape[0]:
        raise ValueError("average and moved must have the same length")
    mean, now, share = contiguous(average), contiguous(moved), np.float32(rate)
    for i in range(mean.shape[0]):
        mean[i] += share * (now[i] - mean[i])


@kernel
def running_average(average: Vector, count: Vector, moved: Vector) -> None:
    """As ``vectorized_ops.reference.averages.running_average``; 5 memory accesses per element.

    Raises ValueError for shapes that do not fit.
    """
    if not average.shape[0] == count.shape[0] == moved.shape[0]:
        raise ValueError("average, count and moved must have the same length")
    mean, number, now = contiguous(average), contiguous(count), contiguous(moved)
    for i in range(mean.shape[0]):
        number[i] += np.float32(1)
        mean[i] += (now[i] - mean[i]) / number[i]
