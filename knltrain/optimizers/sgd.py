"""Stochastic gradient descent with momentum and weight decay, in Caffe's form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from knltrain.network.parameters import aligned_zeros
from knltrain.optimizers.optimizer import Optimizer

FloatArray = npt.NDArray[np.float32]

# (parameters, gradient, velocity, learning_rate, momentum, weight_decay, nesterov)
UpdateKernel = Callable[[FloatArray, FloatArray, FloatArray, float, float, float, bool], None]


class SGD(Optimizer):
    """v = μ v + η (g + λ w), then w -= v; with `nesterov` w -= (1 + μ) v_new - μ v_old.

    μ is the momentum, λ the weight decay, η the learning rate, which stands inside v as in Caffe
    (SGDSolver, NesterovSolver): a change of η does not change steps already taken into v.
    `update` does the arithmetic in one pass over parameters, gradient and velocity.
    """

    def __init__(
        self,
        size: int,
        momentum: float,
        weight_decay: float,
        nesterov: bool,
        update: UpdateKernel,
    ) -> None:
        self._velocity = aligned_zeros(size)
        self._momentum = momentum
        self._weight_decay = weight_decay
        self._nesterov = nesterov
        self._update = update

    @property
    def state(self) -> dict[str, FloatArray]:
        """The velocity v, float32 (size,)."""
        return {"velocity": self._velocity}

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """One update of `parameters` and of the velocity, both in place."""
        self._update(
            parameters,
            gradient,
            self._velocity,
            learning_rate,
            self._momentum,
            self._weight_decay,
            self._nesterov,
        )
