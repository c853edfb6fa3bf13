# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""DOWNPOUR: a worker pushes its progress to the center, and pulls the center."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np

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


@final
class Downpour(ExchangeRule):
    """Move the center by a local's progress since its last pull, then pull the center again.

        center <- center + (local − pulled);   local, pulled <- center

    With plain gradient steps and a period of one step the progress is −η g, and the rule is

    - asynchronous SGD without momentum: W <- W − η g at the master (You, Buluc, Demmel, SC17),
    - their asynchronous MSGD with ``momentum`` μ: v <- μ v − η g at the master,
    - MDOWNPOUR with ``nesterov`` (Zhang, Choromanska, LeCun, "Deep learning with elastic averaging
      SGD", NIPS 2015); the center is then where they take their gradients, x + μ v.

    Longer periods are their DOWNPOUR.

    ``kernels`` are those of ``vectorized_ops.<implementation>.downpour``. Raises ConfigError
    unless 0 <= μ < 1, and μ > 0 with ``nesterov``.
    """

    remembers = True

    def __init__(
        self, kernels: DownpourKernels, momentum: float = 0.0, nesterov: bool = False
    ) -> None:
        check_center_momentum(momentum, nesterov)
        self.momentum = momentum
        self.nesterov = nesterov
        self.center_vectors = 2 if momentum else 1
        self.adds = not momentum
        self._kernels = kernels

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:
        """Store the center as pulled."""
        np.copyto(contribution, center)

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

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Set the local to the center, and store the center as pulled."""
        np.copyto(local, center)
        np.copyto(contribution, center)

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
