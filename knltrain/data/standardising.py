"""Images enlarged, moved by a few pixels, and shifted and scaled to mean 0 and deviation 1."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.data.enlarging import enlarged
from knltrain.data.preprocessing import Draws, Preprocessing
from knltrain.data.shift import epoch_shifts
from knltrain.data.source import ImageSource, Rows
from knltrain.errors import DataError
from knltrain.vectors import FloatArray

MOST_MEASURED = 10_000
"""Pictures of which mean and deviation are taken; of more, so many at equal distances."""


@final
class Standardising(Preprocessing):
    """Enlarges pictures to `side` (None: not), moves them, and makes mean 0 and deviation 1.

    Pictures are moved by up to `shift_pixels`; what comes in is as dark as the byte 0. Raises
    DataError for larger pictures than `side`: to shrink them, pixels would have to be averaged.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        mean: float,
        deviation: float,
        side: int | None = None,
        shift_pixels: int = 0,
    ) -> None:
        height, width, channels = image_shape
        if side is not None and side < max(height, width):
            raise DataError(
                f"data.side_pixels = {side}: images have {height} x {width} pixels; expected at "
                f"least {max(height, width)}, or nothing to leave them as they are"
            )
        self.image_shape = (side or height, side or width, channels)
        self._mean, self._deviation = np.float32(mean), np.float32(deviation)
        self._enlarges = self.image_shape != image_shape
        self._shift_pixels = shift_pixels

    def write(
        self, source: ImageSource, rows: Rows, draws: Draws | None, out_nhwc: FloatArray
    ) -> None:
        """Write the pictures `rows` (n,) of `source` to `out_nhwc` (n,H,W,C)."""
        for row, image in zip(rows.tolist(), out_nhwc, strict=True):
            picture = source.picture(row)
            image[:] = enlarged(picture[None], len(image))[0] if self._enlarges else picture
        if draws is not None and self._shift_pixels:
            self._shift(rows, len(source), draws, out_nhwc)
        out_nhwc -= self._mean
        out_nhwc /= self._deviation

    def _shift(self, rows: Rows, images: int, draws: Draws, out_nhwc: FloatArray) -> None:
        pixels = self._shift_pixels
        height, width, _ = self.image_shape
        shifts = epoch_shifts(images, draws.seed, draws.epoch, pixels)[rows]
        for (down, right), image in zip(shifts.tolist(), out_nhwc, strict=True):
            bordered = np.pad(image, ((pixels, pixels), (pixels, pixels), (0, 0)))
            image[:] = bordered[down : down + height, right : right + width]


def mean_and_deviation(source: ImageSource) -> tuple[float, float]:
    """Of all values of the pictures, in float64.

    Raises DataError where all are the same.
    """
    count = min(len(source), MOST_MEASURED)
    total = squares = values = 0.0
    for row in (np.arange(count) * len(source) // count).tolist():
        picture = source.picture(row).astype(np.float64).ravel()
        total += picture.sum()
        squares += float(picture @ picture)
        values += picture.size
    mean = total / values
    variance = squares / values - mean * mean
    if variance <= 0:
        raise DataError(f"all pixels of the training images are {mean}: nothing to learn from")
    return float(mean), float(np.sqrt(variance))
