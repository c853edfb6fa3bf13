"""Layer-wise adaptive rate scaling: one pass for the norms of all layers, one for the update."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.clipping import SquaredNorms, norm_scale
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.sgd import move
from vectorized_ops.parameter_groups import Clipping, ParameterGroups


@final
class LARSUpdate:
    """See `vectorized_ops.reference.lars.LARSUpdate`: 5 reads and 2 writes per value."""

    def __init__(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        momentum: float,
        trust_coefficient: float,
        adapted: npt.NDArray[np.bool_],
    ) -> None:
        self._groups = groups
        self._clipping = clipping
        self._momentum = momentum
        self._trust = trust_coefficient
        self._adapted = adapted
        self._norms = SquaredNorms(groups)
        self._of_parameters, self._of_gradient = (np.zeros(len(adapted)) for _ in range(2))
        self._rates = np.zeros_like(groups.rates)

    def __call__(
        self, parameters: AnyArray, gradient: AnyArray, velocity: AnyArray, learning_rate: float
    ) -> None:
        """Move `parameters` and `velocity`."""
        groups, bound = self._groups, self._clipping.value
        groups.check(parameters, gradient, velocity)
        self._norms.of(parameters, math.inf, self._of_parameters)
        self._norms.of(gradient, bound, self._of_gradient)
        scale = norm_scale(self._of_gradient, groups.statistics, self._clipping.norm)
        _adapt(
            self._of_parameters, self._of_gradient, scale, self._trust, groups.decays,
            self._adapted, groups.rates, self._rates,
        )  # fmt: skip
        move(
            parameters, gradient, velocity, groups, self._rates, learning_rate,
            self._momentum, False, scale, bound,
        )  # fmt: skip


@kernel
def _adapt(
    of_parameters: Any,
    of_gradient: Any,
    scale: Any,
    trust: float,
    decays: Any,
    adapted: Any,
    rates: Any,
    out: Any,
) -> None:
    """Write rates times trust ratios into `out` (S,)."""
    for s in range(len(out)):
        w, g = math.sqrt(of_parameters[s]), scale * math.sqrt(of_gradient[s])
        ratio = trust * w / (g + decays[s] * w) if adapted[s] and w > 0 and g > 0 else 1.0
        out[s] = np.float32(rates[s] * ratio)
