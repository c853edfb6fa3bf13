"""Optimizers that divide each step by the size of past gradients: AdaGrad, RMSProp and kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, final

import numpy as np

from knltrain.network.parameter_groups import ParameterGroup
from knltrain.optimizers.optimizer import Optimizer, StateArray
from knltrain.optimizers.parameter_groups import numbered_groups
from knltrain.vectors import FloatArray, aligned_zeros
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

# (parameters, gradient, state, step, learning_rate)
AdaptiveUpdate: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray, int, float], None]


class AdaptiveKernels(Protocol):
    """The updates of an implementation: (groups, clipping, l1, the numbers of the rule)."""

    AdaGradUpdate: Callable[[ParameterGroups, Clipping, bool, float], AdaptiveUpdate]
    RMSPropUpdate: Callable[[ParameterGroups, Clipping, bool, float, float], AdaptiveUpdate]
    AdaDeltaUpdate: Callable[[ParameterGroups, Clipping, bool, float, float], AdaptiveUpdate]
    AdamUpdate: Callable[[ParameterGroups, Clipping, bool, float, float, float], AdaptiveUpdate]


@final
class AdaptiveOptimizer(Optimizer):
    """Takes the steps of an `update` that keeps a vector of state for each of `names`.

    What `vectorized_ops.reference.adaptive` defines; `make_update` makes one for the groups.
    `groups` cover the packed vector and multiply learning rate and weight decay λ, which is a term
    of the gradient, or say that they are statistics.
    """

    def __init__(
        self,
        groups: Sequence[ParameterGroup],
        weight_decay: float,
        names: Sequence[str],
        make_update: Callable[[ParameterGroups], AdaptiveUpdate],
    ) -> None:
        numbered = numbered_groups(groups, weight_decay)
        self._names = tuple(names)
        self._vectors = aligned_zeros(len(names) * numbered.size).reshape(len(names), -1)
        self._steps = np.zeros(1, np.int64)
        self._update = make_update(numbered)

    @property
    def state(self) -> dict[str, StateArray]:
        """The vectors, float32 (n,), and how many steps were taken, int64 (1,)."""
        return {**dict(zip(self._names, self._vectors, strict=True)), "steps": self._steps}

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """One update of `parameters` and of the state, all in place."""
        self._steps += 1
        self._update(parameters, gradient, self._vectors, int(self._steps[0]), learning_rate)
