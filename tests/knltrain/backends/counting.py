"""A backend that writes down what it is asked for."""

from __future__ import annotations

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.data.dataset import Batch
from knltrain.vectors import FloatArray


class CountingBackend(Backend):
    """Takes batches of at most `images`; its loss is their number."""

    def __init__(self, images: int, log: list[str]) -> None:
        self.images, self.log = images, log
        log.append(f"built for {images}")

    def _noted(self, name: str, batch: Batch) -> int:
        assert len(batch.labels) <= self.images
        self.log.append(f"{name} {len(batch.labels)}")
        return len(batch.labels)

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        ready(0)
        return float(self._noted("gradient", batch))

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        self._noted("rehearsal", batch)

    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        return 0.0, self._noted("evaluation", batch)

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        return f"layer {self._noted('search', batch)}"

    @property
    def description(self) -> dict[str, object]:
        return {"images": self.images}

    def close(self) -> None:
        self.log.append(f"closed {self.images}")
