"""Rectified linear units, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """Write max(inputs, 0), float32 of any shape; NaN stays NaN. `out` may be `inputs`."""
    np.maximum(inputs, 0, out=out)


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """Write zero where `outputs` <= 0 and the gradient elsewhere, also where `outputs` is NaN.

    `out` may be `gradient`.
    """
    out[...] = np.where(outputs <= 0, 0, gradient)
