# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""DOWNPOUR: a worker pushes its progress to the center, and pulls the center."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np

from knltrain.exchange.rules.averaging import check_workers
from knltrain.exchange.rules.center_momentum import check_center_momentum
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.vectors import FloatArray


class DownpourKernels(Protocol):
    """The arithmetic of DOWNPOUR on one stripe."""

    def downpour_update(self, local: FloatArray, center: FloatArray, pulled: FloatArray, /) -> None:
        """Push and pull."""

    def momentum_downpour_update(
        self,
        local: FloatArray,
        center: FloatArray,
        pulled: FloatArray,
        velocity: FloatArray,
        momentum: float,
        nesterov: bool,
        /,
    ) -> None:
        """Push and pull, with a center that has a velocity."""


class ProgressRule(ExchangeRule):
    """A rule that moves the center by a local's progress since its last pull, then pulls again."""

    remembers = True

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:
        """Store the center as pulled."""
        np.copyto(contribution, center)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Set the local to the center, and store the center as pulled."""
        np.copyto(local, center)
        np.copyto(contribution, center)


@final
class Downpour(ProgressRule):
    """Move the center by a local's progress since its last pull, then pull the center again.

        center <- center + (local − pulled);   local, pulled <- center

    With plain gradient steps and a period of one step the progress is −η g, and the rule is

    - asynchronous SGD without momentum: W <- W − η g at the master (You, Buluc, Demmel, SC17),
    - their asynchronous MSGD with ``momentum`` μ: v <- μ v − η g at the master,
    - MDOWNPOUR with ``nesterov`` (Zhang, Choromanska, LeCun, "Deep learning with elastic averaging
      SGD", NIPS 2015); the center is then where they take their gradients, x + μ v.

    Longer periods are their DOWNPOUR. The sum of all progress is too far for running statistics:
    `MeanProgress` is for them.

    ``kernels`` are those of ``vectorized_ops.<implementation>.downpour``. Raises ConfigError
    unless 0 <= μ < 1, and μ > 0 with ``nesterov``.
    """

    def __init__(
        self,
        kernels: DownpourKernels,
        momentum: float = 0.0,
        nesterov: bool = False,
        of_statistics: MeanProgress | None = None,
    ) -> None:
        check_center_momentum(momentum, nesterov)
        self.momentum = momentum
        self.nesterov = nesterov
        self.center_vectors = 2 if momentum else 1
        self.adds = not momentum
        self.of_statistics = of_statistics
        self._kernels = kernels

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write local − pulled; ``contribution`` holds what was pulled."""
        np.subtract(local, contribution, out=contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Move the center by the contribution, or by the velocity updated with it."""
        if not self.momentum:
            np.add(center, contribution, out=center)
            return
        velocity, rate = kept[0], np.float32(self.momentum)
        velocity *= rate
        velocity += contribution
        center += rate * velocity + contribution if self.nesterov else velocity

    def visit(
        self, local: FloatArray, center: FloatArray, kept: FloatArray, contribution: FloatArray
    ) -> None:
        """Push and pull in one pass; 6 memory accesses per element, 8 with a velocity."""
        if self.momentum:
            self._kernels.momentum_downpour_update(
                local, center, contribution, kept[0], self.momentum, self.nesterov
            )
        else:
            self._kernels.downpour_update(local, center, contribution)


@final
class MeanProgress(ProgressRule):
    """Move the center by a P-th of a local's progress since its last pull, then pull it again.

    So P workers that each see their own share of the images move running statistics as far as one
    does. ``center_vectors`` are those of the rule of the parameters. Raises ConfigError for less
    than one worker.
    """

    adds = True

    def __init__(self, workers: int, center_vectors: int = 1) -> None:
        check_workers(workers)
        self.center_vectors = center_vectors
        self._workers = np.float32(workers)

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write (local − pulled) / P; ``contribution`` holds what was pulled."""
        np.subtract(local, contribution, out=contribution)
        np.divide(contribution, self._workers, out=contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Add the contribution to the center."""
        np.add(center, contribution, out=center)
