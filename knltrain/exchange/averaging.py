# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""Averaging: every exchange ends with all locals and the center equal to the mean of the locals."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rule import FloatArray, SynchronousRule


class TakesOver(SynchronousRule):
    """A rule after which every local is the center, which has moved by the mean of all differences.

    Raises ConfigError for less than one worker.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ConfigError(f"workers = {workers}: expected at least 1")
        self.workers = workers

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write (local − center) / P."""
        np.subtract(local, center, out=contribution)
        np.divide(contribution, np.float32(self.workers), out=contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Add one contribution, or a sum of them, to the center."""
        np.add(center, contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Take over the center."""
        np.copyto(local, center)


@final
class ModelAveraging(TakesOver):
    """Replace every local and the center by the mean of the P locals.

    On parameters this is model averaging (local SGD), on gradients synchronous SGD. An exchange
    keeps Σ_i local_i, leaves all replicas equal to the last bit, and with one worker changes
    nothing but the center.

    ``kernel`` does one exchange of all workers on one stripe:
    ``vectorized_ops.<implementation>.elastic.synchronous_average``. The three verbs move the center
    by differences, Σ_i (local_i − center) / P, and so reach the mean up to rounding at the size of
    the old center; ``synchronise`` adds up the locals themselves.
    Raises ConfigError for less than one worker.
    """

    def __init__(self, workers: int, kernel: Callable[[FloatArray, FloatArray], None]) -> None:
        super().__init__(workers)
        self._kernel = kernel

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and P flops per element."""
        self._kernel(locals_, center)


@final
class GradientSum(TakesOver):
    """Replace every local and the center by the sum of the P locals.

    On gradients this is the partition of one chip into P core groups by You, Buluc, Demmel,
    "Scaling deep learning on GPU and Knights Landing clusters", SC17: each group has weights and
    data of its own in near memory, gets the sum of all gradients, and updates its own weights.

    ``kernel``: ``vectorized_ops.<implementation>.elastic.synchronous_sum``. The three verbs move
    the center by Σ_i (local_i − center / P). Raises ConfigError for less than one worker.
    """

    def __init__(self, workers: int, kernel: Callable[[FloatArray, FloatArray], None]) -> None:
        super().__init__(workers)
        self._kernel = kernel

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write local − center / P."""
        np.divide(center, np.float32(self.workers), out=contribution)
        np.subtract(local, contribution, out=contribution)

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and P flops per element."""
        self._kernel(locals_, center)
