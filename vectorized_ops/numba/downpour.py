"""A worker's push to the center and its fetch of the result, compiled by Numba.

One pass over memory: every vector is read once, and written once. Results are those of
``vectorized_ops.reference.downpour``, to the same bits, wherever a stripe begins or ends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import contiguous

Vector = npt.NDArray[np.float32]


@kernel
def downpour_update(local: Vector, center: Vector, pulled: Vector) -> None:
    """As ``vectorized_ops.reference.downpour.downpour_update``; 6 memory accesses per element.

    Raises ValueError for shapes that do not fit.
    """
    if not local.shape[0] == center.shape[0] == pulled.shape[0]:
        raise ValueError("local, center and pulled must have the same length")
    mine, middle, before = contiguous(local), contiguous(center), contiguous(pulled)
    for i in range(middle.shape[0]):
        moved = middle[i] + (mine[i] - before[i])
        middle[i] = moved
        mine[i] = moved
        before[i] = moved


@kernel
def momentum_downpour_update(
    local: Vector,
    center: Vector,
    pulled: Vector,
    velocity: Vector,
    momentum: float,
    nesterov: bool,
) -> None:
    """As ``vectorized_ops.reference.downpour.momentum_downpour_update``; 8 memory accesses.

    Raises ValueError for shapes that do not fit.
    """
    if not local.shape[0] == center.shape[0] == pulled.shape[0] == velocity.shape[0]:
        raise ValueError("local, center, pulled and velocity must have the same length")
    rate = np.float32(momentum)
    mine, middle, before = contiguous(local), contiguous(center), contiguous(pulled)
    speed = contiguous(velocity)
    for i in range(middle.shape[0]):
        difference = mine[i] - before[i]
        faster = rate * speed[i] + difference
        speed[i] = faster
        moved = middle[i] + (rate * faster + difference if nesterov else faster)
        middle[i] = moved
        mine[i] = moved
        before[i] = moved
