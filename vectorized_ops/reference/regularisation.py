"""Regularisation of parameters, as a term of their gradient, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def regularised(gradient: AnyArray, parameters: AnyArray, decay: AnyArray, l1: bool) -> AnyArray:
    """Return g + decay*w (L2), or g + decay*sign(w) with `l1`, where sign(0) is 0."""
    found: AnyArray = gradient + decay * (np.sign(parameters) if l1 else parameters)
    return found
