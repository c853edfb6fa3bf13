"""The learning rate of a step: Caffe's policies (sgd_solver.cpp, GetLearningRate) and cosine.

In the formulas `step` is t, counted from 0, and `total_steps` T. A worker may go past T, see
`exchange.termination`: `poly` and `cosine` stay at 0 from there on, the others go on.
"""

from __future__ import annotations

import math
from typing import TypeVar

from knltrain.config import LearningRateConfig

Value = TypeVar("Value")

_LARGEST_EXPONENT = 700.0
"""e to the power of 710 is more than a float64 holds."""


def learning_rate_at(config: LearningRateConfig, step: int, total_steps: int) -> float:
    """η of `step` (0 for the first) in a run of `total_steps`.

    During the first `warmup_steps` the rate is start + (target - start) t / warmup_steps, with the
    `warmup_start` and, by `warmup_target`, the policy's own rate at t or the base rate. The latter
    is Intel Caffe's rule: after the warm-up the rate may jump to that of the policy.
    """
    if step >= config.warmup_steps:
        return _POLICIES[config.policy](config, step, total_steps)
    start, target = config.warmup_start, config.base
    if config.warmup_target == "policy":
        target = _POLICIES[config.policy](config, step, total_steps)
    return start + (target - start) * step / config.warmup_steps


def _fixed(config: LearningRateConfig, _step: int, _total_steps: int) -> float:
    """base."""
    return config.base


def _step(config: LearningRateConfig, step: int, _total_steps: int) -> float:
    """base γ^floor(t / step_size)."""
    return config.base * math.pow(_given(config.gamma), step // _given(config.step_size))


def _multistep(config: LearningRateConfig, step: int, _total_steps: int) -> float:
    """base γ^(number of step_values ≤ t)."""
    drops = sum(value <= step for value in _given(config.step_values))
    return config.base * math.pow(_given(config.gamma), drops)


def _piecewise(config: LearningRateConfig, step: int, _total_steps: int) -> float:
    """base before the first of step_values, then the rate of the last that is ≤ t."""
    begun = sum(value <= step for value in _given(config.step_values))
    return (config.base, *_given(config.step_rates))[begun]


def _exp(config: LearningRateConfig, step: int, _total_steps: int) -> float:
    """base γ^t."""
    return config.base * math.pow(_given(config.gamma), step)


def _inv(config: LearningRateConfig, step: int, _total_steps: int) -> float:
    """base (1 + γ t)^-power."""
    return config.base * math.pow(1 + _given(config.gamma) * step, -_given(config.power))


def _poly(config: LearningRateConfig, step: int, total_steps: int) -> float:
    """base (1 - t / T)^power."""
    return config.base * math.pow(max(0.0, 1 - step / total_steps), _given(config.power))


def _sigmoid(config: LearningRateConfig, step: int, _total_steps: int) -> float:
    """base / (1 + exp(-γ (t - step_size))): rises with γ > 0, falls with γ < 0."""
    fall = -_given(config.gamma) * (step - _given(config.step_size))
    return config.base / (1 + math.exp(min(fall, _LARGEST_EXPONENT)))


def _cosine(config: LearningRateConfig, step: int, total_steps: int) -> float:
    """base (1 + cos(π t / T)) / 2 (Loshchilov and Hutter, ICLR 2017, without restarts)."""
    return config.base * (1 + math.cos(math.pi * min(1.0, step / total_steps))) / 2


def _given(value: Value | None) -> Value:
    """A key that the policy needs; LearningRateConfig guarantees it."""
    assert value is not None
    return value


_POLICIES = {
    "fixed": _fixed,
    "step": _step,
    "multistep": _multistep,
    "piecewise": _piecewise,
    "exp": _exp,
    "inv": _inv,
    "poly": _poly,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
}
