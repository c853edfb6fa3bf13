"""The size of a data set, known before any of its images are read."""

from __future__ import annotations

from dataclasses import dataclass

from affinity.process.available import available_bytes
from affinity.sizes import format_bytes
from knltrain.errors import DataError

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Extent:
    """So many images for training and testing, all of the same shape (H,W,C).

    `label_shape` is () of classes, (classes,) of targets.
    """

    train_images: int
    test_images: int
    image_shape: tuple[int, int, int]
    label_shape: tuple[int, ...] = ()

    def first(self, train_images: int | None, test_images: int | None) -> Extent:
        """The extent of the first images only; None: all. Larger limits have no effect."""
        return Extent(
            min(self.train_images, train_images or self.train_images),
            min(self.test_images, test_images or self.test_images),
            self.image_shape,
            self.label_shape,
        )

    def shape_with(self, side_pixels: int | None) -> tuple[int, int, int]:
        """Shape (H,W,C) of the images, enlarged to `side_pixels`; None: as they are."""
        height, width, channels = self.image_shape
        return (side_pixels or height, side_pixels or width, channels)

    def bytes_with(self, side_pixels: int | None, shift_pixels: int) -> int:
        """Bytes of the images in float32, enlarged to `side_pixels`, with borders for shifts.

        Enlarging keeps the originals beside the large images for a while. Training images with
        borders are copies beside the originals.
        """
        height, width, channels = self.image_shape
        images, found = self.train_images + self.test_images, 0
        if side_pixels is not None:
            found += images * height * width
            height, width, _ = self.shape_with(side_pixels)
        found += images * height * width
        if shift_pixels:
            found += self.train_images * (height + 2 * shift_pixels) * (width + 2 * shift_pixels)
        return FLOAT_BYTES * channels * found


def check_room(
    extent: Extent, name: str, side_pixels: int | None, shift_pixels: int, copies: int
) -> None:
    """Refuse images that do not fit this computer's memory, before allocating: DataError.

    Each of `copies` workers holds all of them. Memory is what the kernel reports as available,
    within the limits of control groups.
    """
    needed, free = extent.bytes_with(side_pixels, shift_pixels), available_bytes()
    if copies * needed <= free:
        return
    pixels = " x ".join(map(str, extent.shape_with(side_pixels)[:2]))
    each = f" for each of {copies} workers, {format_bytes(copies * needed)} in all," * (copies > 1)
    raise DataError(
        f"data.name = '{name}': {extent.train_images:,} training and {extent.test_images:,} test "
        f"images of {pixels} pixels take {format_bytes(needed)}{each or ','} and "
        f"{format_bytes(free)} of memory are free: use fewer (data.train_images, "
        "data.test_images), smaller ones (data.side_pixels), or fewer workers"
    )
