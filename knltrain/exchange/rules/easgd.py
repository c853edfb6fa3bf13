# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""Elastic averaging SGD: locals are pulled towards the center, and the center towards them."""

from __future__ import annotations

from typing import Protocol, final

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import DeviceArithmetic, FloatArray


class ElasticKernels(Protocol):
    """The arithmetic of elastic and plain averaging on one stripe."""

    def synchronous_elastic_update(
        self, locals_: FloatArray, center: FloatArray, moving_rate: float, /
    ) -> None:
        """Pull all locals and the center."""

    def synchronous_average(self, locals_: FloatArray, center: FloatArray, /) -> None:
        """Set all locals and the center to the mean of the locals."""

    def synchronous_model_average(self, locals_: FloatArray, center: FloatArray, /) -> None:
        """Set all to the mean of the locals; where these are equal they stay."""

    def synchronous_sum(self, locals_: FloatArray, center: FloatArray, /) -> None:
        """Set all locals and the center to the sum of the locals."""

    def elastic_update(self, local: FloatArray, center: FloatArray, moving_rate: float, /) -> None:
        """Pull one local and the center."""

    def elastic_increment(
        self, local: FloatArray, center: FloatArray, increment: FloatArray, moving_rate: float, /
    ) -> None:
        """Pull one local, and write the increment for the center."""


@final
class EASGD(SynchronousRule):
    """The elastic terms of EASGD; the optimizer takes the gradient step.

    The gradient is taken at W_t, where the pull also starts. Weight decay is not: the optimizer
    steps after the pull, and decays the pulled parameters.

    With moving rate α = η ρ, P workers, and every value taken before the exchange:

        local_i <- local_i − α (local_i − center)
        center  <- center + α Σ_i (local_i − center) = (1 − β) center + β mean_i local_i,  β = P α

    Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, equations (5)
    and (6); You, Buluc, Demmel, "Scaling deep learning on GPU and Knights Landing clusters", SC17,
    equations (1) and (2): this is their Sync EASGD. An exchange preserves Σ_i local_i + center, up
    to one rounding each of the P locals and the center and P − 1 roundings of the sum of the pulls.

    A worker that visits the center uses the center of that moment: Zhang's Algorithm 1, and
    equation (2') of SC17.

    The local takes back what a wire format leaves out of its contribution. If that were kept as a
    residual, it would be pulled again and again until it is sent.

    ``kernels`` are those of ``vectorized_ops.<implementation>.elastic``. Zhang uses β = 0.9, a
    moving rate of 0.9 / P; `knltrain.exchange.rules.rule` has the bounds of stability.
    Raises ConfigError unless 0 < α < 1.
    """

    follows = False
    adds = True
    takes_back = True
    computes_on_devices = True
    after = "gradient"

    def __init__(
        self,
        moving_rate: float,
        kernels: ElasticKernels,
    ) -> None:
        if not 0 < moving_rate < 1:
            raise ConfigError(
                f"exchange.moving_rate = {moving_rate}: expected more than 0 and less than 1"
            )
        self.moving_rate = moving_rate
        self._kernels = kernels
        self._increment = kernels.elastic_increment

    def compute_on(self, arithmetic: DeviceArithmetic) -> None:
        """Contribute, absorb and follow on a device from now on, on whole vectors."""
        super().compute_on(arithmetic)
        self._increment = arithmetic.elastic_increment

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write e = α (local − center), and subtract it from ``local``; 4 memory accesses."""
        self._increment(local, center, contribution, self.moving_rate)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Add one e, or a sum of them, to the center."""
        self.arithmetic.add(center, contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Do nothing: ``contribute`` has already moved the local."""

    def visit(
        self, local: FloatArray, center: FloatArray, kept: FloatArray, contribution: FloatArray
    ) -> None:
        """Pull one local and the current center; 4 memory accesses per element."""
        self._kernels.elastic_update(local, center, self.moving_rate)

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do one whole exchange; 2 P + 2 memory accesses and 4 P flops per element."""
        self._kernels.synchronous_elastic_update(locals_, center, self.moving_rate)
