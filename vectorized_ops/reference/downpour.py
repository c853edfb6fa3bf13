"""A worker's push to the center and its fetch of the result, in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


def downpour_update(local: Vector, center: Vector, pulled: Vector) -> None:
    """Add to the center what a local has moved by since it was pulled, and pull it again.

    center += local − pulled; local = pulled = center. All have shape (n,), float32, no overlap.
    DOWNPOUR as in Zhang, Choromanska, LeCun 2015; with a period of one step and plain gradient
    steps, the asynchronous SGD of You, Buluc, Demmel 2017.
    """
    center += local - pulled
    local[:] = center
    pulled[:] = center


def momentum_downpour_update(
    local: Vector,
    center: Vector,
    pulled: Vector,
    velocity: Vector,
    momentum: float,
    nesterov: bool,
) -> None:
    """As ``downpour_update``, but the center moves by a velocity v, kept beside it.

    With the momentum μ and d = local − pulled: v = μ v + d, center += v, the heavy ball of You,
    Buluc, Demmel 2017, equations (3) and (4) at the master; with ``nesterov`` center += μ v + d
    with the new v, which leaves the center where MDOWNPOUR of Zhang, Choromanska, LeCun 2015 has
    its workers take their gradients: x + μ v.
    """
    rate = np.float32(momentum)
    difference = local - pulled
    velocity *= rate
    velocity += difference
    center += rate * velocity + difference if nesterov else velocity
    local[:] = center
    pulled[:] = center
