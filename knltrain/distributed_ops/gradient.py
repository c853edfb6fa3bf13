"""The handle that `backward_weights` returns: a gradient whose sum over all ranks is pending."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import final

from knltrain.communication.reduction import Reduction
from knltrain.distributed_ops.times import Times
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError, PeerLost
from knltrain.vectors import FloatArray

Gradients = Mapping[str, FloatArray]
"""Gradients by the names of the parameters."""


@final
class GradientHandle:
    """The gradient of the layer ``name``, cut into ``reductions``; the first began at ``begun``."""

    def __init__(
        self,
        name: str,
        gradients: Gradients,
        reductions: Sequence[Reduction],
        begun: float,
        times: Times,
    ) -> None:
        self._name, self._gradients = name, gradients
        self._reductions, self._begun, self._times = reductions, begun, times
        self._error: KnltrainError | None = None
        self.is_reduced = False
        """Whether `wait` has succeeded."""

    def wait(self) -> Gradients:
        """Wait for the sum over all ranks; return the gradients.

        Raises PeerLost, ExchangeTimeout or CollectiveError, with the layer and the rank that
        failed; raises the same error again when called again.
        """
        if self._error is not None:
            raise self._error
        if not self.is_reduced:
            self._finish()
        return self._gradients

    def _finish(self) -> None:
        begin = time.perf_counter()
        try:
            done_at = max(reduction.wait() for reduction in self._reductions)
        except (PeerLost, ExchangeTimeout, CollectiveError) as error:
            self._error = type(error)(f"gradient of layer '{self._name}': {error}")
            raise self._error from error
        self._times.exposed_seconds += time.perf_counter() - begin
        self._times.issued_seconds += done_at - self._begun
        self.is_reduced = True
