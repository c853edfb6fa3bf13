"""Converts a network's parameter groups to those of the optimizers' kernels.

Frozen parameters become statistics of momentum 0: they do not move, and count in no norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from knltrain.network.layers import ParameterSpec
from knltrain.network.parameter_groups import ParameterGroup
from vectorized_ops.parameter_groups import ParameterGroups


def numbered_groups(groups: Sequence[ParameterGroup], weight_decay: float) -> ParameterGroups:
    """Rates, decays and statistics of each group for SGD and AdamW, with weight decay λ."""
    return _numbered(
        [group.start for group in groups],
        groups[-1].stop,
        [group.learning_rate_multiplier for group in groups],
        [weight_decay * group.decay_multiplier for group in groups],
        [group.statistic_momentum for group in groups],
    )


def layers_of(
    parameters: Sequence[ParameterSpec], packed_size: int, weight_decay: float
) -> tuple[ParameterGroups, npt.NDArray[np.bool_]]:
    """The groups for LARS, one for each parameter array, and which have their own rate: weights.

    The others (biases, scales and shifts) move by the learning rate alone and without decay. The
    padding behind a parameter belongs to it: it is zero, and so is its gradient.
    """
    weights = np.array([spec.role == "weights" for spec in parameters])
    groups = _numbered(
        [spec.offset for spec in parameters],
        packed_size,
        [spec.learning_rate_multiplier for spec in parameters],
        [weight_decay * spec.decay_multiplier for spec in parameters] * weights,
        [spec.statistic_momentum for spec in parameters],
    )
    return groups, weights


def _numbered(
    starts: Sequence[int],
    size: int,
    rates: Sequence[float],
    decays: Sequence[float] | npt.NDArray[np.float64],
    statistics: Sequence[float | None],
) -> ParameterGroups:
    return ParameterGroups(
        bounds=np.array([*starts, size], np.int64),
        rates=np.array(rates, np.float32),
        decays=np.array(decays, np.float32),
        statistics=np.array(
            [
                momentum if momentum is not None else 0.0 if rate == 0 else math.nan
                for momentum, rate in zip(statistics, rates, strict=True)
            ],
            np.float32,
        ),
    )
