"""Stochastic gradient descent with momentum and weight decay, one pass over the packed vectors."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiler import parallel_kernel


def sgd_update(
    parameters: AnyArray,
    gradient: AnyArray,
    velocity: AnyArray,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
) -> None:
    """See `vectorized_ops.reference.sgd.sgd_update`: 3 reads and 2 writes per parameter."""
    _update(
        parameters,
        gradient,
        velocity,
        np.float32(learning_rate),
        np.float32(momentum),
        np.float32(weight_decay),
        nesterov,
    )


@parallel_kernel
def _update(
    parameters: Any,
    gradient: Any,
    velocity: Any,
    learning_rate: Any,
    momentum: Any,
    weight_decay: Any,
    nesterov: bool,
) -> None:
    for i in numba.prange(parameters.shape[0]):
        step = learning_rate * (gradient[i] + weight_decay * parameters[i])
        before = velocity[i]
        after = momentum * before + step
        velocity[i] = after
        if nesterov:
            parameters[i] -= (np.float32(1.0) + momentum) * after - momentum * before
        else:
            parameters[i] -= after
