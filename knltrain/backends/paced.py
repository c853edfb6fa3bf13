"""A backend that takes as long as a slower machine would: for measurements of unequal workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import final

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray


@final
class PacedBackend(Backend):
    """Computes by another backend, then sleeps until its modelled time is over.

    A gradient takes 1 / ``images_per_second`` for each image, or what it really takes if that is
    longer. So speeds are exact whatever else the machine does. Evaluations are not slowed down.
    """

    def __init__(self, backend: Backend, images_per_second: float) -> None:
        self._backend = backend
        self._image_seconds = 1 / images_per_second

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Compute, and sleep for the rest of the modelled time."""
        due = time.perf_counter() + self._image_seconds * len(batch.labels)
        loss = self._backend.loss_and_gradient(batch, parameters, gradient, ready)
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        return loss

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        """Rehearse by the backend."""
        self._backend.rehearse(batch, parameters, gradient)

    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Evaluate by the backend."""
        return self._backend.evaluate(batch, parameters, logits)

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Find the layer by the backend."""
        return self._backend.first_non_finite(batch, parameters)

    @property
    def description(self) -> Mapping[str, object]:
        """The decisions of the backend."""
        return self._backend.description

    def close(self) -> None:
        """Close the backend."""
        self._backend.close()
