"""The check of the values that a run starts from."""

from __future__ import annotations

import numpy as np

from knltrain.vectors import FloatArray


def check_start_values(values: FloatArray | None, size: int) -> FloatArray:
    """Return the start values of rank 0, or raise ValueError if they are missing or do not fit."""
    if values is None:
        raise ValueError("start_from: rank 0 must give the values that all workers start from")
    if values.shape != (size,) or values.dtype != np.float32:
        raise ValueError(
            f"start_from: got {values.dtype} of shape {values.shape}, expected float32 of ({size},)"
        )
    return values
