"""Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import numpy as np

from knltrain.network.parameter_groups import ParameterGroup
from knltrain.optimizers.optimizer import Optimizer, StateArray
from knltrain.optimizers.parameter_groups import numbered_groups
from knltrain.vectors import FloatArray, aligned_zeros
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

# (parameters, gradient, first_moment, second_moment, step, learning_rate)
MomentsUpdate: TypeAlias = Callable[
    [FloatArray, FloatArray, FloatArray, FloatArray, int, float], None
]

# (groups, clipping, beta1, beta2, epsilon)
AdamWKernel: TypeAlias = Callable[[ParameterGroups, Clipping, float, float, float], MomentsUpdate]


@final
class AdamW(Optimizer):
    """m = β1 m + (1-β1) g, v = β2 v + (1-β2) g², w -= η (m̂ / (sqrt(v̂) + ε) + λ w).

    In step t m̂ = m / (1 - β1^t) and v̂ = v / (1 - β2^t) (Loshchilov, Hutter, ICLR 2019, algorithm
    2). λ is the weight decay and η the learning rate, which multiplies the decay too.
    `groups` cover the packed vector and multiply η and λ, or say that they are statistics.
    `kernel`, the AdamWUpdate of an implementation, does the arithmetic in one pass.
    """

    def __init__(
        self,
        groups: Sequence[ParameterGroup],
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float,
        clipping: Clipping,
        kernel: AdamWKernel,
    ) -> None:
        numbered = numbered_groups(groups, weight_decay)
        self._first, self._second = (aligned_zeros(numbered.size) for _ in range(2))
        self._steps = np.zeros(1, np.int64)
        self._update = kernel(numbered, clipping, beta1, beta2, epsilon)

    @property
    def state(self) -> dict[str, StateArray]:
        """The moments m and v, float32 (n,), and how many steps were taken, int64 (1,)."""
        return {"first_moment": self._first, "second_moment": self._second, "steps": self._steps}

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """One update of `parameters`, of both moments and of the count, all in place."""
        self._steps += 1
        steps = int(self._steps[0])
        self._update(parameters, gradient, self._first, self._second, steps, learning_rate)
