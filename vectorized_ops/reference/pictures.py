"""From pictures of bytes to a network's images, defined: crop, resize, flip, colour, normalise."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray, FloatArray
from vectorized_ops.pictures import PicturePlan, Pixels, check_pass, check_plan


@final
class PicturePass:
    """Makes images (n,H,W,C) float32 of pictures (h,w,C) uint8 of any sizes; C is 1 or 3.

    1. A box of the picture is resized to (H,W): see `interpolation`. Beyond the picture all is 0. A
       box of (H,W) whole pixels is copied.
    2. The image is flipped.
    3. Colours: each pixel v becomes M v + b + E m, with m the mean of all pixels of the image.
    4. (v - mean) * scale, both float32 (C,), rounded twice. In place of the mean there may be a
       `mean_picture` float32 (h',w',C), of which the part at the image's offset is subtracted,
       flipped as the image is. Beyond it its edges go on.

    All is computed in float32, each sum from left to right, so all machines agree to the last bit;
    the mean pixel and the weights of pixels in float64. Raises OperationError for shapes that do
    not fit.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        mean: FloatArray,
        scale: FloatArray,
        mean_picture: FloatArray | None = None,
    ) -> None:
        check_pass(image_shape, mean, scale, mean_picture)
        self._shape, self._mean, self._scale = image_shape, mean, scale
        self._mean_picture = mean_picture

    def write(self, pictures: Sequence[Pixels], plan: PicturePlan, out: AnyArray) -> None:
        """Write the images of `pictures` to `out` (n,H,W,C)."""
        check_plan(pictures, plan, out, self._shape)
        for i, picture in enumerate(pictures):
            image = resized(picture, plan.boxes[i], self._shape[:2])
            if plan.flipped[i]:
                image = image[:, ::-1]
            if plan.colours is not None:
                extra = None if plan.of_mean is None else plan.of_mean[i]
                image = coloured(image, plan.colours[i], extra)
            out[i] = (image - self._means(plan, i)) * self._scale

    def _means(self, plan: PicturePlan, i: int) -> AnyArray:
        if self._mean_picture is None:
            return self._mean
        top, left = (0, 0) if plan.offsets is None else plan.offsets[i].tolist()
        places = (
            np.clip(np.arange(begin, begin + size), 0, whole - 1)
            for begin, size, whole in zip(
                (top, left), self._shape[:2], self._mean_picture.shape[:2], strict=True
            )
        )
        part: AnyArray = self._mean_picture[np.ix_(*places)]
        return part[:, ::-1] if plan.flipped[i] else part


@functools.lru_cache(maxsize=32)
def interpolation(
    size: int, begin: float, length: float, count: int
) -> tuple[tuple[int, FloatArray], ...]:
    """How `count` pixels are made of the part of a line of `size` pixels from `begin` on.

    Of each: the first pixel that counts, and the weights float32 of it and those after it. They are
    those of a triangle around the new pixel's centre, as wide as two old pixels, or two new ones
    where these are larger; pixel centres are at half-integer positions. They add up to 1. The line
    goes on, black, as far as the part does. What lies beyond is left out, as in Pillow's BILINEAR.
    """
    step = length / count
    reach = max(step, 1.0)
    first, last = min(0, math.floor(begin)), max(size, math.ceil(begin + length))
    found = []
    for i in range(count):
        centre = begin + (i + 0.5) * step
        low = max(first, math.floor(centre - reach + 0.5))
        high = min(last, math.floor(centre + reach + 0.5))
        weights = [
            max(0.0, 1.0 - abs((place + 0.5 - centre) / reach)) for place in range(low, high)
        ]
        total = 0.0
        for weight in weights:
            total += weight
        inside = range(max(low, 0), min(high, size))
        kept = np.array([weights[place - low] / total for place in inside], np.float32)
        kept.flags.writeable = False
        found.append((inside.start, kept))
    return tuple(found)


def resized(picture: Pixels, box: npt.NDArray[np.float64], shape: tuple[int, int]) -> FloatArray:
    """A box of a picture (h,w,C), (top, left, height, width), as float32 (H,W,C): lines first."""
    (height, width, channels), (top, left, tall, wide) = picture.shape, box.tolist()
    values = picture.astype(np.float32)
    lines = _combined(values, interpolation(height, top, tall, shape[0]), (width, channels))
    across = interpolation(width, left, wide, shape[1])
    columns = _combined(lines.swapaxes(0, 1), across, (shape[0], channels))
    found: FloatArray = columns.swapaxes(0, 1)
    return found


def _combined(
    values: FloatArray, taps: tuple[tuple[int, FloatArray], ...], shape: tuple[int, ...]
) -> FloatArray:
    out = np.zeros((len(taps), *shape), np.float32)
    for target, (start, weights) in zip(out, taps, strict=True):
        for place, weight in enumerate(weights, start):
            target += weight * values[place]
    return out


def coloured(image: FloatArray, colours: FloatArray, of_mean: FloatArray | None) -> FloatArray:
    """Pixels v of (H,W,C) as M v + b + E m; see `PicturePass`."""
    channels = image.shape[2]
    added = colours[:, channels]
    if of_mean is not None:
        pixels = image.reshape(-1, channels).astype(np.float64)
        mean = (np.cumsum(pixels, axis=0)[-1] / len(pixels)).astype(np.float32)
        for c in range(channels):
            added = added + of_mean[:, c] * mean[c]
    total = np.zeros_like(image)
    for c in range(channels):
        total = total + colours[:, c] * image[..., c, np.newaxis]
    return total + added
