# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""Averaging: an exchange sets all locals and the center to the mean (or sum) of the locals."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import FloatArray


class DifferenceRule(SynchronousRule):
    """A rule that moves the center by the mean of all differences, and sets every local to it.

    Raises ConfigError for less than one worker.
    """

    def __init__(self, workers: int) -> None:
        check_workers(workers)
        self.workers = workers

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write (local − center) / P."""
        self.arithmetic.subtract(local, center, out=contribution)
        self.arithmetic.divide(contribution, self.workers, out=contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Add one contribution, or a sum of them, to the center."""
        self.arithmetic.add(center, contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Take over the center."""
        self.arithmetic.copy(center, out=local)


@final
class ModelAveraging(DifferenceRule):
    """Replace every local and the center by the mean of the P locals.

    This is model averaging (local SGD). An exchange preserves Σ_i local_i, and leaves all replicas
    equal to the last bit. With one worker it changes only the center.

    ``kernel`` does one exchange of all workers on one stripe:
    ``vectorized_ops.<implementation>.elastic.synchronous_model_average``. `contribute`, `absorb`
    and `follow` move the center by differences, Σ_i (local_i − center) / P. So they reach the mean
    up to a rounding error relative to the old center; `synchronise` adds up differences from the
    first local.
    Raises ConfigError for less than one worker.
    """

    computes_on_devices = True

    def __init__(self, workers: int, kernel: Callable[[FloatArray, FloatArray], None]) -> None:
        super().__init__(workers)
        self._kernel = kernel

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and P flops per element."""
        self._kernel(locals_, center)


class GradientRule(SynchronousRule):
    """A rule for gradients: an exchange does not depend on the old center.

    The center becomes the sum of all contributions, and every local is set to it. ``kernel`` does
    one exchange of all workers on one stripe. Raises ConfigError for less than one worker.
    """

    moves = "gradient"
    after = "gradient"

    def __init__(self, workers: int, kernel: Callable[[FloatArray, FloatArray], None]) -> None:
        check_workers(workers)
        self.workers = workers
        self._kernel = kernel

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Set the center to the sum of all contributions."""
        self.arithmetic.copy(contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Take over the center."""
        self.arithmetic.copy(center, out=local)

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and P flops per element."""
        self._kernel(locals_, center)


@final
class GradientMean(GradientRule):
    """Replace every local and the center by the mean of the P locals: synchronous SGD.

    Unlike those of `ModelAveraging`, contributions are not differences from the center. So what a
    wire format leaves out of one is a share of a gradient, and error feedback must add it to the
    next. A difference would contain it again by itself.

    ``kernel``: ``vectorized_ops.<implementation>.elastic.synchronous_average``.
    """

    computes_on_devices = True

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write local / P."""
        self.arithmetic.divide(local, self.workers, out=contribution)


@final
class GradientSum(GradientRule):
    """Replace every local and the center by the sum of the P locals.

    This partitions one chip into P core groups as You, Buluc, Demmel do, "Scaling deep learning on
    GPU and Knights Landing clusters", SC17. Each group has its own weights and data in near memory,
    gets the sum of all gradients, and updates its own weights. Running statistics move by the mean:
    a sum would carry them P times as far.

    ``kernel``: ``vectorized_ops.<implementation>.elastic.synchronous_sum``.
    """

    def __init__(
        self,
        workers: int,
        kernel: Callable[[FloatArray, FloatArray], None],
        of_statistics: SynchronousRule | None = None,
    ) -> None:
        super().__init__(workers, kernel)
        self.of_statistics = of_statistics

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write the local unchanged."""
        self.arithmetic.copy(local, out=contribution)


def check_workers(workers: int) -> None:
    """Raise ConfigError for less than one worker."""
    if workers < 1:
        raise ConfigError(f"workers = {workers}: expected at least 1")
