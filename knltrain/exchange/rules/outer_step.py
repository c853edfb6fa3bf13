"""Outer steps: the center moves by an optimizer of its own, and all locals are set to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import DifferenceRule
from knltrain.exchange.rules.center_momentum import check_center_momentum
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import FloatArray


class OuterKernel(Protocol):
    """One outer step on one stripe: ``vectorized_ops.<implementation>.outer_step``."""

    def __call__(
        self,
        locals_: FloatArray,
        center: FloatArray,
        velocity: FloatArray,
        decay: float,
        gain: float,
        velocity_rate: float,
        rate: float,
        /,
    ) -> None:
        """Move the center by the progress of all locals, and set all locals to it."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The coefficients of one outer step for d = mean of the locals − center.

    velocity <- decay velocity + gain d;  center <- center + velocity_rate velocity + rate d
    """

    decay: float
    gain: float
    velocity_rate: float
    rate: float


OuterOptimizer: TypeAlias = Callable[[int], Coefficients]
"""Returns the coefficients of the exchange in a step, counted from 0."""


def gradient_descent(learning_rate: float, momentum: float, nesterov: bool) -> OuterOptimizer:
    """SGD on the outer gradient −d, DiLoCo's outer optimizer.

    v <- μ v + d;  center <- center + lr (d + μ v) in Nesterov's form, else + lr v.
    Douillard et al., "DiLoCo: Distributed low-communication training of language models",
    arXiv 2311.08105. Raises ConfigError unless the learning rate is above 0 and 0 <= μ < 1, and
    μ > 0 with Nesterov's form.
    """
    check_center_momentum(momentum, nesterov)
    _check_rate(learning_rate)
    share = momentum if nesterov else 1.0
    found = Coefficients(momentum, 1.0, learning_rate * share, learning_rate if nesterov else 0.0)
    return lambda _step: found


def slow_momentum(
    slow_rate: float, momentum: float, learning_rate: Callable[[int], float]
) -> OuterOptimizer:
    """SlowMo: u <- β u − d / γ;  center <- center − α γ u, with the step's learning rate γ.

    The velocity kept is −u. Wang et al., "SlowMo: Improving communication-efficient distributed SGD
    with slow momentum", arXiv 1910.00643, Algorithm 1. Raises ConfigError unless α is above 0 and
    0 <= β < 1. A step with learning rate 0 has moved no local, and does not move the center.
    """
    check_center_momentum(momentum)
    _check_rate(slow_rate)

    def at(step: int) -> Coefficients:
        rate = learning_rate(step)
        return Coefficients(momentum, 1 / rate if rate else 0.0, slow_rate * rate, 0.0)

    return at


@final
class OuterStep(DifferenceRule):
    """Move the center by an optimizer of its own, and set every local to it.

    The optimizer's gradient is center − mean of the locals. With learning rate 1 and no momentum
    this is model averaging, which is what running statistics are exchanged by.
    """

    center_vectors = 2

    def __init__(
        self,
        workers: int,
        optimizer: OuterOptimizer,
        kernel: OuterKernel,
        of_statistics: SynchronousRule | None = None,
    ) -> None:
        super().__init__(workers)
        self.of_statistics = of_statistics
        self._optimizer = optimizer
        self._kernel = kernel
        self._now = optimizer(0)

    def prepare(self, step: int) -> None:
        """Set the coefficients of this step."""
        self._now = self._optimizer(step)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Move velocity and center by the sum of all contributions."""
        now, velocity = self._now, kept[0]
        velocity *= np.float32(now.decay)
        velocity += np.float32(now.gain) * contribution
        center += np.float32(now.velocity_rate) * velocity + np.float32(now.rate) * contribution

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 4 memory accesses per element."""
        now = self._now
        self._kernel(locals_, center, kept[0], now.decay, now.gain, now.velocity_rate, now.rate)


def _check_rate(rate: float) -> None:
    if not rate > 0:
        raise ConfigError(f"exchange.center_learning_rate = {rate}: expected more than 0")
