"""A backend that takes as long as a slower machine would: for measurements of unequal workers."""

from __future__ import annotations

import time
from typing import final

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.backends.delegating import DelegatingBackend
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray


@final
class PacedBackend(DelegatingBackend):
    """Computes by another backend, then sleeps until its modelled time is over.

    A gradient takes 1 / ``images_per_second`` for each image, or what it really takes if that is
    longer. So speeds are exact whatever else the machine does. Evaluations are not slowed down.
    """

    def __init__(self, backend: Backend, images_per_second: float) -> None:
        super().__init__(backend)
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
        loss = super().loss_and_gradient(batch, parameters, gradient, ready)
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        return loss
