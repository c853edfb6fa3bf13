"""The seam of batches: where a training step gets its next one from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches


class BatchFeed(ABC):
    """Gives a worker its batches one after another, in the order of its steps."""

    def begin(self, step: int) -> None:  # noqa: B027
        """The first batch that is taken will be that of global `step`, from 0."""

    @abstractmethod
    def take(self, step: int, number: int = 0) -> Batch:
        """Batch `number` of global `step`; it is the worker's until `give_back` or the next one.

        Raises BrokenPicture or DataError where pictures cannot be read.
        """

    def following(self, step: int, number: int = 0) -> Batch | None:  # noqa: ARG002
        """The batch that will be taken after that one, if it is there and stays as it is."""
        return None

    def give_back(self) -> None:  # noqa: B027
        """The batch that was taken is done with: the next call of `take` is for the next one."""

    def close(self) -> None:  # noqa: B027
        """Say that no more batches are taken; release shared resources."""


@final
class FilledHere(BatchFeed):
    """The worker fills its one batch itself, when a step asks for it; it may have no images."""

    def __init__(self, batches: ShardedBatches, image_shape: tuple[int, int, int]) -> None:
        self._batches, self._image_shape = batches, image_shape
        self._batch = self._allocated()

    def take(self, step: int, number: int = 0) -> Batch:
        """Fill it, in new memory if the worker's share has changed."""
        if len(self._batch.labels) != self._batches.images_per_worker:
            self._batch = self._allocated()
        self._batches.fill(step, self._batch, number)
        return self._batch

    def _allocated(self) -> Batch:
        images, labels = self._batches.images_per_worker, self._batches.label_shape
        return Batch.allocate(images, self._image_shape, labels)
