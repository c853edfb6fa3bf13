"""Averages of the center over time, which are evaluated instead of it."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.vectors import FloatArray


class AverageKernels(Protocol):
    """The arithmetic of averages over time: ``vectorized_ops.<implementation>.averages``."""

    def moving_average(self, average: FloatArray, moved: FloatArray, rate: float, /) -> None:
        """Update an exponential moving average at a constant rate."""

    def running_average(self, average: FloatArray, count: FloatArray, moved: FloatArray, /) -> None:
        """Add one more vector to the mean of all so far."""


@final
class AveragedCenter(ExchangeRule):
    """A rule whose model is the average z of the center x over its updates, counted by t from 0.

        z_{t+1} = (1 − a) z_t + a x_t,  a constant, or 1 / (t + 1) if ``rate`` is None

    Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015: with DOWNPOUR
    as the ``rule`` this is MVADOWNPOUR, or ADOWNPOUR without a rate; with one worker it is MVASGD,
    or ASGD. The center keeps beside it what ``rule`` keeps, z, and without a rate the count t of
    each element.

    Raises ConfigError unless 0 < a <= 1.
    """

    def __init__(self, rule: ExchangeRule, rate: float | None, kernels: AverageKernels) -> None:
        if rate is not None and not 0 < rate <= 1:
            raise ConfigError(
                f"exchange.averaging_rate = {rate}: expected more than 0 and at most 1"
            )
        self._rule = rule
        self._rate = rate
        self._kernels = kernels
        self._average = rule.center_vectors - 1
        self.center_vectors = rule.center_vectors + (2 if rate is None else 1)
        self.follows = rule.follows
        self.takes_back = rule.takes_back
        self.remembers = rule.remembers
        if rule.of_statistics is not None:
            self.of_statistics = AveragedCenter(rule.of_statistics, rate, kernels)

    def prepare(self, step: int) -> None:
        """Prepare the rule."""
        self._rule.prepare(step)

    def found(self, center: FloatArray, kept: FloatArray) -> None:
        """Set the average to the center, its first vector."""
        self._rule.found(center, kept[: self._average])
        np.copyto(kept[self._average], center)
        kept[self._average + 1 :] = 1

    def model(self, center: FloatArray, kept: FloatArray) -> FloatArray:
        """Return the average."""
        del center
        average: FloatArray = kept[self._average]
        return average

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:
        """Begin by the rule."""
        self._rule.begin(center, contribution)

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Contribute by the rule."""
        self._rule.contribute(local, center, contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Absorb by the rule, and add the center to the average."""
        self._rule.absorb(center, kept[: self._average], contribution)
        self._take_in(center, kept)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Follow by the rule."""
        self._rule.follow(local, center, contribution)

    def visit(
        self, local: FloatArray, center: FloatArray, kept: FloatArray, contribution: FloatArray
    ) -> None:
        """Visit by the rule, and add the center to the average."""
        self._rule.visit(local, center, kept[: self._average], contribution)
        self._take_in(center, kept)

    def _take_in(self, center: FloatArray, kept: FloatArray) -> None:
        average = kept[self._average]
        if self._rate is None:
            self._kernels.running_average(average, kept[self._average + 1], center)
        else:
            self._kernels.moving_average(average, center, self._rate)
