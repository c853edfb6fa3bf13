"""The shape of a worker's batch, and how it lies in a slot of shared memory."""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from typing import final

import numpy as np

from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.source import LabelArray

_ALIGNMENT = 64
_FLOAT_BYTES, _CLASS_BYTES, _KEY_BYTES = 4, 8, 8


@final
@dataclass(frozen=True, slots=True)
class BatchShape:
    """The shape of a worker's batch: so many images (H,W,C), and the shape of a label."""

    images: int
    image_shape: tuple[int, int, int]
    label_shape: tuple[int, ...] = ()

    @classmethod
    def of(cls, images: LabelledImages, images_per_worker: int) -> BatchShape:
        """That of batches of a data set's half."""
        return cls(images_per_worker, images.image_shape, images.label_shape)

    @property
    def bytes(self) -> int:
        """Of one slot: images, labels and key, each at a multiple of a cache line; whole pages."""
        return rounded_up(sum(rounded_up(size, _ALIGNMENT) for size in self._sizes), mmap.PAGESIZE)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        images = self.images * math.prod(self.image_shape) * _FLOAT_BYTES
        label = _FLOAT_BYTES * math.prod(self.label_shape) if self.label_shape else _CLASS_BYTES
        return images, self.images * label, _KEY_BYTES

    def batch_in(self, slot: memoryview) -> Batch:
        """The batch whose arrays lie in these bytes."""
        images, labels, _ = self._sizes
        second = rounded_up(images, _ALIGNMENT)
        third = second + rounded_up(labels, _ALIGNMENT)
        pixels, told = slot[:images], slot[second : second + labels]
        found: LabelArray
        if self.label_shape:
            found = np.frombuffer(told, np.float32).reshape(self.images, *self.label_shape)
        else:
            found = np.frombuffer(told, np.int64)
        return Batch(
            np.frombuffer(pixels, np.float32).reshape(self.images, *self.image_shape),
            found,
            np.frombuffer(slot[third : third + _KEY_BYTES], np.uint64),
        )


def rounded_up(size: int, unit: int) -> int:
    """The next multiple of `unit` from `size` on."""
    return -(-size // unit) * unit
