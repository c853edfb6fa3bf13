"""Regularisation of parameters, as a term of their gradient, compiled by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel


@kernel
def regularised(gradient: Any, parameter: Any, decay: Any, l1: bool) -> Any:
    """See `vectorized_ops.reference.regularisation.regularised`, for one value."""
    if not l1:
        return gradient + decay * parameter
    sign = np.float32(parameter > 0) - np.float32(parameter < 0)
    return gradient + decay * (parameter if parameter != parameter else sign)  # NaN stays NaN
