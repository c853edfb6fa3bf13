"""The size of a data set, known before any of its images are read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from affinity.numbers import format_bytes
from affinity.process.cgroup import available_bytes
from knltrain.errors import DataError


@dataclass(frozen=True, slots=True)
class Extent:
    """So many images for training and testing, all of the same shape (H,W,C).

    `label_shape` is () of classes, (classes,) of targets. Of each half, training first, `held`
    tells whether its images take memory.
    """

    train_images: int
    test_images: int
    image_shape: tuple[int, int, int]
    label_shape: tuple[int, ...] = ()
    held: tuple[bool, bool] = (True, True)

    def first(self, train_images: int | None, test_images: int | None) -> Extent:
        """The extent of the first images only; None: all. Larger limits have no effect."""
        return Extent(
            min(self.train_images, train_images or self.train_images),
            min(self.test_images, test_images or self.test_images),
            self.image_shape,
            self.label_shape,
            self.held,
        )

    def shape_with(self, side_pixels: int | None) -> tuple[int, int, int]:
        """Shape (H,W,C) of the images, enlarged to `side_pixels`; None: as they are."""
        height, width, channels = self.image_shape
        return (side_pixels or height, side_pixels or width, channels)

    @property
    def bytes(self) -> int:
        """Of all pictures in memory, a byte each value."""
        train, test = self.held
        images = self.train_images * train + self.test_images * test
        return images * math.prod(self.image_shape)


def check_room(extent: Extent, name: str, copies: int = 1) -> None:
    """Refuse images that do not fit this computer's memory, before allocating: DataError.

    There are so many `copies` at once: the images are read, and then copied to the memory that all
    workers share. Memory is what the kernel reports as available, within the limits of control
    groups.
    """
    needed, free = extent.bytes, available_bytes()
    if copies * needed <= free:
        return
    pixels = " x ".join(map(str, extent.image_shape[:2]))
    twice = f" and, while workers are given them, {format_bytes(copies * needed)},"
    raise DataError(
        f"data.name = '{name}': {extent.train_images:,} training and {extent.test_images:,} test "
        f"images of {pixels} pixels take {format_bytes(needed)}{twice if copies > 1 else ','} and "
        f"{format_bytes(free)} of memory are free: use fewer (data.train_images, "
        "data.test_images)"
    )
