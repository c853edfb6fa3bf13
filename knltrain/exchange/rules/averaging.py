# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""Averaging: every exchange ends with all locals and the center equal to the mean of the locals."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import FloatArray


class DifferenceRule(SynchronousRule):
    """A rule after which every local is the center, which has moved by the mean of all differences.

    Raises ConfigError for less than one worker.
    """

    def __init__(self, workers: int) -> None:
        check_workers(workers)
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
class ModelAveraging(DifferenceRule):
    """Replace every local and the center by the mean of the P locals.

    This is model averaging (local SGD). An exchange keeps Σ_i local_i, leaves all replicas equal to
    the last bit, and with one worker changes nothing but the center.

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


class GradientRule(SynchronousRule):
    """A rule for gradients: each exchange is of its own, whatever the center was before.

    The center becomes the sum of all contributions, and every local takes it over. ``kernel`` does
    one exchange of all workers on one stripe. Raises ConfigError for less than one worker.
    """

    moves = "gradient"
    after = "gradient"

    def __init__(self, workers: int, kernel: Callable[[FloatArray, FloatArray], None]) -> None:
        check_workers(workers)
        self._workers = np.float32(workers)
        self._kernel = kernel

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Let the center be the sum of all contributions."""
        np.copyto(center, contribution)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Take over the center."""
        np.copyto(local, center)

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and P flops per element."""
        self._kernel(locals_, center)


@final
class GradientMean(GradientRule):
    """Replace every local and the center by the mean of the P locals: synchronous SGD.

    Unlike those of `ModelAveraging`, contributions are no differences from the center: what one of
    them loses on its way over a link, and is added to the next (error feedback), is a gradient's
    share and no more, where a difference would bring it up again by itself.

    ``kernel``: ``vectorized_ops.<implementation>.elastic.synchronous_average``.
    """

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write local / P."""
        np.divide(local, self._workers, out=contribution)


@final
class GradientSum(GradientRule):
    """Replace every local and the center by the sum of the P locals.

    This is the partition of one chip into P core groups by You, Buluc, Demmel, "Scaling deep
    learning on GPU and Knights Landing clusters", SC17: each group has weights and data of its own
    in near memory, gets the sum of all gradients, and updates its own weights.

    ``kernel``: ``vectorized_ops.<implementation>.elastic.synchronous_sum``.
    """

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write the local as it is."""
        np.copyto(contribution, local)


def check_workers(workers: int) -> None:
    """Raise ConfigError for less than one worker."""
    if workers < 1:
        raise ConfigError(f"workers = {workers}: expected at least 1")
