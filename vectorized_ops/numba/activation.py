"""Rectified linear units."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, images_last
from vectorized_ops.numba.compiler import parallel_kernel


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.activation.relu_forward`; `out` may be `inputs`."""
    _forward(images_last(inputs).reshape(-1), images_last(out).reshape(-1))


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.activation.relu_backward`; `out` may be `gradient`."""
    _backward(
        images_last(gradient).reshape(-1),
        images_last(outputs).reshape(-1),
        images_last(out).reshape(-1),
    )


@parallel_kernel
def _forward(inputs: Any, out: Any) -> None:
    for i in numba.prange(inputs.shape[0]):
        value = inputs[i]
        out[i] = np.float32(0.0) if value < 0 else value


@parallel_kernel
def _backward(gradient: Any, outputs: Any, out: Any) -> None:
    for i in numba.prange(gradient.shape[0]):
        out[i] = np.float32(0.0) if outputs[i] <= 0 else gradient[i]
