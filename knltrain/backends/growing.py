"""A backend for batches whose size is not known beforehand: it is built anew for larger ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from knltrain.backends.backend import Backend
from knltrain.backends.delegating import DelegatingBackend
from knltrain.clocks import UNOBSERVED, Marks
from knltrain.data.dataset import Batch


@final
class GrowingBackend(DelegatingBackend):
    """Computes by a backend that ``build`` makes for so many images, anew when a batch has more."""

    def __init__(self, build: Callable[[int], Backend], images: int) -> None:
        super().__init__(build(images))
        self._build, self._images = build, images
        self._marks: Marks = UNOBSERVED

    def observe(self, marks: Marks) -> None:
        """Let the backend mark its regions, and those that come after it."""
        self._marks = marks
        super().observe(marks)

    def _for(self, batch: Batch) -> Backend:
        if len(batch.labels) > self._images:
            self._backend.close()  # before the other one takes memory
            self._images = len(batch.labels)
            self._backend = self._build(self._images)
            self._backend.observe(self._marks)
        return self._backend
