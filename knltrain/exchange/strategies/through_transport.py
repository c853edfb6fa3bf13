"""The base of strategies with one transport."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import Strategy
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray, aligned_zeros

AnyTransport = TypeVar("AnyTransport", bound=Transport, covariant=True)


class ThroughTransport(Strategy, Generic[AnyTransport]):
    """Exchanges through one transport; its local is the vector that the method moves."""

    def __init__(self, method: Method, transport: AnyTransport) -> None:
        self.method = method
        self.team = self.transport = transport
        self._own = aligned_zeros(transport.local.size)

    @property
    def parameters(self) -> FloatArray:
        """The transport's local, or a vector of its own if the method moves gradients."""
        return self.transport.local if self.method.moves == "parameters" else self._own

    @property
    def gradient(self) -> FloatArray:
        """A vector of its own, or the transport's local if the method moves gradients."""
        return self._own if self.method.moves == "parameters" else self.transport.local

    @property
    def model(self) -> FloatArray:
        """The rule's model, usually the center; if gradients move, this worker's parameters."""
        if self.method.moves == "gradient":
            return self._own
        return self.method.rule.model(self.transport.center, self.transport.kept)

    def start_from(self, values: FloatArray) -> None:
        """Set the center and every local to the values of rank 0 (collective)."""
        leads = self.transport.rank == 0
        self.transport.start_from(values if leads else None)
        if self.transport.keeps_center:
            self.method.rule.found(self.transport.center, self.transport.kept)
        if self.method.moves == "gradient":
            np.copyto(self._own, self.transport.center)

    def gradient_ready(self, step: int) -> None:
        """Exchange if it is due when the gradient of a step is ready."""
        if self.method.after == "gradient" and self.method.due(step):
            self.exchange(step)

    def stepped(self, step: int) -> None:
        """Exchange if it is due when the local has moved."""
        if self.method.after == "step" and self.method.due(step):
            self.exchange(step)

    def state(self) -> dict[str, FloatArray]:
        """Return, at a worker that keeps the center, the vectors beside it and the residual.

        Also the center itself, if it is not the model.
        """
        if not self.transport.keeps_center:
            return {}
        found = {f"kept{number}": each for number, each in enumerate(self.transport.kept)}
        if self.transport.residual.size and not self.method.rule.takes_back:
            found["residual"] = self.transport.residual
        if (
            self.method.rule.model(self.transport.center, self.transport.kept)
            is self.transport.center
        ):
            return found
        return {**found, "center": self.transport.center}

    def close(self) -> None:
        """Release all vectors."""
        self._own = np.zeros(0, np.float32)
        self.transport.close()
