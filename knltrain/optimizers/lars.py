"""Layer-wise adaptive rate scaling, for large batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.network.layers import ParameterSpec
from knltrain.optimizers.optimizer import Optimizer, StateArray
from knltrain.optimizers.parameter_groups import layers_of
from knltrain.optimizers.sgd import VelocityUpdate
from knltrain.vectors import FloatArray, aligned_zeros
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

# (groups, clipping, momentum, trust_coefficient, adapted)
LARSKernel: TypeAlias = Callable[
    [ParameterGroups, Clipping, float, float, npt.NDArray[np.bool_]], VelocityUpdate
]


@final
class LARS(Optimizer):
    """v = μ v + η r (g + λ w), then w -= v, with a trust ratio r for each array of weights.

    r = trust_coefficient |w| / (|g| + λ |w|), or 1 where |w| or |g| is 0 (You, Gitman, Ginsburg
    2017, arXiv 1708.03888, algorithm 1). Biases and the scales and shifts of normalisation have
    r = 1 and no decay. `parameters` lie in order of their offsets in a packed vector of
    `packed_size` values. `kernel` is the LARSUpdate of an implementation.
    """

    def __init__(
        self,
        parameters: Sequence[ParameterSpec],
        packed_size: int,
        momentum: float,
        weight_decay: float,
        trust_coefficient: float,
        clipping: Clipping,
        kernel: LARSKernel,
    ) -> None:
        groups, weights = layers_of(parameters, packed_size, weight_decay)
        self._velocity = aligned_zeros(packed_size)
        self._update = kernel(groups, clipping, momentum, trust_coefficient, weights)

    @property
    def state(self) -> dict[str, StateArray]:
        """The velocity v, float32 (n,)."""
        return {"velocity": self._velocity}

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """One update of `parameters` and of the velocity, both in place."""
        self._update(parameters, gradient, self._velocity, learning_rate)
