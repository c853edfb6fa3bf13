"""A backend around another one: what it does not override is the other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.clocks import Marks
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.backends.region import Region


class DelegatingBackend(Backend):
    """Lets another backend compute."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Compute by the backend."""
        return self._for(batch).loss_and_gradient(batch, parameters, gradient, ready)

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        """Rehearse by the backend."""
        self._for(batch).rehearse(batch, parameters, gradient)

    def prefetch(self, batch: Batch) -> None:
        """Let the backend hear of the next batch."""
        self._for(batch).prefetch(batch)

    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Evaluate by the backend."""
        return self._for(batch).evaluate(batch, parameters, logits)

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Find the layer by the backend."""
        return self._for(batch).first_non_finite(batch, parameters)

    @property
    def description(self) -> Mapping[str, object]:
        """The decisions of the backend as it is now."""
        return self._backend.description

    @property
    def regions(self) -> Sequence[Region]:
        """The regions of the backend as it is now."""
        return self._backend.regions

    def observe(self, marks: Marks) -> None:
        """Let the backend mark them."""
        self._backend.observe(marks)

    def close(self) -> None:
        """Close the backend."""
        self._backend.close()

    def _for(self, batch: Batch) -> Backend:  # noqa: ARG002
        """The backend that computes with this batch."""
        return self._backend
