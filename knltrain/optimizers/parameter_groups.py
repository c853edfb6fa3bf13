"""From what a network says of its packed vector to what the optimizers' kernels are told."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from knltrain.network.layers import ParameterSpec
from knltrain.network.parameter_groups import ParameterGroup
from vectorized_ops.parameter_groups import ParameterGroups


def stretches_of(segments: Sequence[ParameterGroup], weight_decay: float) -> ParameterGroups:
    """How SGD and AdamW move each segment with that weight decay λ."""
    return _stretches(
        [segment.start for segment in segments],
        segments[-1].stop,
        [segment.learning_rate_multiplier for segment in segments],
        [weight_decay * segment.decay_multiplier for segment in segments],
        [segment.statistic_momentum for segment in segments],
    )


def layers_of(
    parameters: Sequence[ParameterSpec], packed_size: int, weight_decay: float
) -> tuple[ParameterGroups, npt.NDArray[np.bool_]]:
    """How LARS moves each parameter array, and which of them it gives a rate of its own: weights.

    The others, biases and what scales and shifts, move by the learning rate alone and without
    decay. The padding behind a parameter belongs to it: it is zero, and so is its gradient.
    """
    weights = np.array([spec.role == "weights" for spec in parameters])
    stretches = _stretches(
        [spec.offset for spec in parameters],
        packed_size,
        [spec.learning_rate_multiplier for spec in parameters],
        [weight_decay * spec.decay_multiplier for spec in parameters] * weights,
        [spec.statistic_momentum for spec in parameters],
    )
    return stretches, weights


def _stretches(
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
        statistics=np.array([math.nan if m is None else m for m in statistics], np.float32),
    )
