"""Stochastic gradient descent with momentum and weight decay, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def sgd_update(
    parameters: AnyArray,
    gradient: AnyArray,
    velocity: AnyArray,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool,
) -> None:
    """Move `parameters` and `velocity` (n,) float32 by one step, as Caffe does.

    v' = momentum*v + learning_rate*(gradient + weight_decay*w); w' = w - v', or with Nesterov's
    momentum w' = w - ((1 + momentum)*v' - momentum*v).
    """
    rate, mu, decay = map(np.float32, (learning_rate, momentum, weight_decay))
    before = velocity.copy()
    velocity[...] = mu * before + rate * (gradient + decay * parameters)
    if nesterov:
        parameters -= (np.float32(1) + mu) * velocity - mu * before
    else:
        parameters -= velocity
