"""Rectified linear units, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """Write max(inputs, 0), float32 of any shape; NaN stays NaN. `out` may be `inputs`."""
    np.maximum(inputs, 0, out=out)


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """Write the gradient where `outputs` > 0 and zero elsewhere. `out` may be `gradient`."""
    out[...] = np.where(outputs > 0, gradient, 0)
