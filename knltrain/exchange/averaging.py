"""Averaging: every exchange ends with all locals and the center equal to the mean of the locals."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rule import ExchangeRule, FloatArray


@final
class ModelAveraging(ExchangeRule):
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
        if workers < 1:
            raise ConfigError(f"workers = {workers}: expected at least 1")
        self.workers = workers
        self._kernel = kernel

    def contribute(self, local: FloatArray, center: FloatArray, out: FloatArray) -> None:
        """Write (local − center) / P to ``out``."""
        np.subtract(local, center, out=out)
        np.divide(out, np.float32(self.workers), out=out)

    def absorb(self, center: FloatArray, contribution: FloatArray) -> None:
        """Add one contribution, or a sum of them, to the center."""
        np.add(center, contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray) -> None:
        """Take over the center."""
        np.copyto(local, center)

    def synchronise(self, locals_: FloatArray, center: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and P flops per element."""
        self._kernel(locals_, center)
