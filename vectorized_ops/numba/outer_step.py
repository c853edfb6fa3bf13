"""An optimizer's step at the center in one pass over memory, compiled by Numba.

Results are those of ``vectorized_ops.reference.outer_step``, to the same bits, wherever a stripe
begins or ends.
"""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.elastic import check_shapes
from vectorized_ops.numba.emit.raw_arrays import contiguous, row, stack_vector

_BLOCK = 1024
"""Elements handled at a time: center, velocity and one local, 4 KiB each, stay in the L1 cache."""


@kernel
def synchronous_outer_step(
    locals_: FloatArray,
    center: FloatArray,
    velocity: FloatArray,
    decay: float,
    gain: float,
    velocity_rate: float,
    rate: float,
) -> None:
    """As ``vectorized_ops.reference.outer_step``; 2 P + 4 memory accesses per element.

    Raises ValueError for rows that are not contiguous or shapes that do not fit.
    """
    check_shapes(locals_, center)
    if velocity.shape[0] != center.shape[0]:
        raise ValueError("center and velocity must have the same length")
    workers = np.float32(locals_.shape[0])
    kept, gained = np.float32(decay), np.float32(gain)
    by_velocity, directly = np.float32(velocity_rate), np.float32(rate)
    total = stack_vector(_BLOCK, np.float32)
    all_speeds = contiguous(velocity)
    for begin in range(0, center.shape[0], _BLOCK):
        middle = center[begin : begin + _BLOCK]
        speed = all_speeds[begin : begin + _BLOCK]
        total[:] = 0
        for worker in range(locals_.shape[0]):
            local = row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                total[i] += local[i] - middle[i]
        for i in range(middle.shape[0]):
            difference = total[i] / workers
            faster = kept * speed[i] + gained * difference
            speed[i] = faster
            middle[i] += by_velocity * faster + directly * difference
        for worker in range(locals_.shape[0]):
            local = row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                local[i] = middle[i]
