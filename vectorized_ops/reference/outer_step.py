"""An optimizer's step at the center, driven by the mean of the locals − center, in NumPy."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import FloatArray


def synchronous_outer_step(
    locals_: FloatArray,
    center: FloatArray,
    velocity: FloatArray,
    decay: float,
    gain: float,
    velocity_rate: float,
    rate: float,
) -> None:
    """Move the center by what all locals have moved by, and set all locals to it.

    With d = mean of (local − center), added in rank order, so that equal values stay as they are:

        velocity <- decay velocity + gain d;  center <- center + velocity_rate velocity + rate d

    ``locals_`` has shape (P, n), ``center`` and ``velocity`` (n,), all float32, no overlap.
    """
    total = np.zeros_like(center)
    for local in locals_:
        total += local - center
    difference = total / np.float32(len(locals_))
    velocity[:] = np.float32(decay) * velocity + np.float32(gain) * difference
    center += np.float32(velocity_rate) * velocity + np.float32(rate) * difference
    locals_[:] = center
