"""A backend for batches whose size is not known beforehand: it is built anew for larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray


@final
class GrowingBackend(Backend):
    """Computes by a backend that ``build`` makes for so many images, anew when a batch has more."""

    def __init__(self, build: Callable[[int], Backend], images: int) -> None:
        self._build = build
        self._images = images
        self._backend = build(images)

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Compute by a backend that is large enough."""
        return self._for(batch).loss_and_gradient(batch, parameters, gradient, ready)

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        """Rehearse by a backend that is large enough."""
        self._for(batch).rehearse(batch, parameters, gradient)

    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Evaluate by a backend that is large enough."""
        return self._for(batch).evaluate(batch, parameters, logits)

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Find the layer by a backend that is large enough."""
        return self._for(batch).first_non_finite(batch, parameters)

    @property
    def description(self) -> Mapping[str, object]:
        """The decisions of the backend as it is now."""
        return self._backend.description

    def close(self) -> None:
        """Close the backend."""
        self._backend.close()

    def _for(self, batch: Batch) -> Backend:
        if len(batch.labels) > self._images:
            self._backend.close()  # before the other one takes memory
            self._images = len(batch.labels)
            self._backend = self._build(self._images)
        return self._backend
