"""The mean pixel of an image, and lines of a mean picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel


@kernel
def mean_pixel(image: Any, channels: int, mean: Any) -> None:
    """Write the mean of an image's pixels, summed from the first to the last in float64."""
    first, second, third, pixels = 0.0, 0.0, 0.0, len(image) // channels
    if channels == 3:
        for i in range(pixels):
            first += float(image[3 * i])
            second += float(image[3 * i + 1])
            third += float(image[3 * i + 2])
        mean[1], mean[2] = np.float32(second / pixels), np.float32(third / pixels)
    else:
        for i in range(pixels):
            first += float(image[i])
    mean[0] = np.float32(first / pixels)


@kernel
def with_mean(colours: Any, of_mean: Any, mean: Any, channels: int, out: Any) -> None:
    """Write the matrix to which the image's mean pixel has been added."""
    for row in range(channels):
        place = row * (channels + 1)
        added = colours[place + channels]
        for c in range(channels):
            out[place + c] = colours[place + c]
            added = added + of_mean[row * channels + c] * mean[c]
        out[place + channels] = added


@kernel
def mean_line(
    picture: Any,
    y: int,
    left: int,
    height: int,
    width: int,
    channels: int,
    flipped: bool,
    room: Any,
) -> int:
    """Return where line `y` of a mean picture from `left` on lies, as many values as `room` has.

    Beyond the mean picture its edges go on: such a part is written to `room`, and the place is -1.
    Behind the picture it lies once more, flipped.
    """
    size = len(room)
    count = size // channels
    begin = min(max(y, 0), height - 1) * width
    if flipped:
        begin, left = begin + height * width, width - left - count
    if left >= 0 and left + count <= width:
        return (begin + left) * channels
    for x in range(count):
        place = (begin + min(max(left + x, 0), width - 1)) * channels
        for c in range(channels):
            room[x * channels + c] = picture[place + c]
    return -1
