"""Elastic averaging SGD: every local is pulled to the center, and the center to all locals."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rule import ExchangeRule, FloatArray


@final
class EASGD(ExchangeRule):
    """The elastic terms of EASGD; the gradient step is the optimizer's.

    The loss's gradient is that at W_t, which the pull starts from, too. Weight decay is not: the
    optimizer steps after the pull, and takes the decay at the parameters as that left them.

    With moving rate α = η ρ, P workers, and every value taken before the exchange:

        local_i <- local_i − α (local_i − center)
        center  <- center + α Σ_i (local_i − center) = (1 − β) center + β mean_i local_i,  β = P α

    Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, equations (5)
    and (6); You, Buluc, Demmel, "Scaling deep learning on GPU and Knights Landing clusters", SC17,
    equations (1) and (2), whose Sync EASGD this is. What leaves the locals enters the center: an
    exchange keeps Σ_i local_i + center, up to one rounding each of the P locals and the center
    and P − 1 roundings of the sum of the pulls.

    ``kernel`` does one exchange of all workers on one stripe:
    ``vectorized_ops.<implementation>.elastic.synchronous_elastic_update``. Zhang uses β = 0.9, a
    moving rate of 0.9 / P. Raises ConfigError unless 0 < α and β <= 1: past that, the center
    overshoots the mean of the locals.
    """

    def __init__(
        self,
        moving_rate: float,
        workers: int,
        kernel: Callable[[FloatArray, FloatArray, float], None],
    ) -> None:
        if not moving_rate > 0:
            raise ConfigError(f"exchange.moving_rate = {moving_rate}: expected more than 0")
        # Not as α P > 1: that product may come out above 1 by a rounding for the allowed α = 1 / P.
        if moving_rate > 1 / workers:
            raise ConfigError(
                f"exchange.moving_rate = {moving_rate} with {workers} workers: expected at most "
                f"1 / workers = {1 / workers:.6g} (beta = workers x moving_rate <= 1, past that "
                f"the center overshoots); leave it out to get 0.9 / workers = {0.9 / workers:.6g}"
            )
        self.moving_rate = moving_rate
        self._kernel = kernel

    def contribute(self, local: FloatArray, center: FloatArray, out: FloatArray) -> None:
        """Write e = α (local − center) to ``out``, and take it from ``local``."""
        np.subtract(local, center, out=out)
        np.multiply(out, np.float32(self.moving_rate), out=out)
        np.subtract(local, out, out=local)

    def absorb(self, center: FloatArray, contribution: FloatArray) -> None:
        """Add one e, or a sum of them, to the center."""
        np.add(center, contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray) -> None:
        """Do nothing: ``contribute`` has already moved the local."""

    def synchronise(self, locals_: FloatArray, center: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and 4 P flops per element."""
        self._kernel(locals_, center, self.moving_rate)
