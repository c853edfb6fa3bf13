"""Stochastic gradient descent with momentum and weight decay, in Caffe's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

from knltrain.network.parameter_groups import ParameterGroup
from knltrain.optimizers.optimizer import Optimizer, StateArray
from knltrain.optimizers.parameter_groups import numbered_groups
from knltrain.vectors import FloatArray, aligned_zeros
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

# (parameters, gradient, velocity, learning_rate)
VelocityUpdate: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray, float], None]

# (groups, clipping, momentum, nesterov, l1)
SGDKernel: TypeAlias = Callable[[ParameterGroups, Clipping, float, bool, bool], VelocityUpdate]


@final
class SGD(Optimizer):
    """v = μ v + η (g + λ w), then w -= v; with `nesterov` w -= (1 + μ) v_new - μ v_old.

    With `l1` λ sign(w) takes the place of λ w.

    μ is the momentum, λ the weight decay, η the learning rate, which stands inside v as in Caffe
    (SGDSolver, NesterovSolver): a change of η does not change steps already taken into v.
    `groups` cover the packed vector and multiply η and λ, or say that they are statistics.
    `kernel`, the SGDUpdate of an implementation, does the arithmetic in one pass.
    """

    def __init__(
        self,
        groups: Sequence[ParameterGroup],
        momentum: float,
        weight_decay: float,
        nesterov: bool,
        clipping: Clipping,
        kernel: SGDKernel,
        l1: bool = False,
    ) -> None:
        numbered = numbered_groups(groups, weight_decay)
        self._velocity = aligned_zeros(numbered.size)
        self._update = kernel(numbered, clipping, momentum, nesterov, l1)

    @property
    def state(self) -> dict[str, StateArray]:
        """The velocity v, float32 (n,)."""
        return {"velocity": self._velocity}

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """One update of `parameters` and of the velocity, both in place."""
        self._update(parameters, gradient, self._velocity, learning_rate)
