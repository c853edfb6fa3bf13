"""Lines of a picture that are copied to an image, and how lines of floats are finished."""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import array_at
from vectorized_ops.numba.kernels.pictures.float_tiles import finished_tile
from vectorized_ops.numba.kernels.pictures.tiles import SHORT_STEP, STEP, normalised_tile

INTERLEAVED, REVERSED, PLANAR = 0, 1, 2
"""How the channels of a pixel lie: side by side, so but the last first, or a plane for each."""


@kernel
def copied_line(
    out: Any,
    target: int,
    address: int,
    layout: int,
    plane: int,
    count: int,
    channels: int,
    flipped: bool,
    means: Any,
    scales: Any,
    past: bool,
) -> None:
    """Write (v - mean) * scale of `count` pixels, whose bytes begin at an address.

    Means and scales are those of as many values, the same for all pixels.
    """
    size = count * channels
    step = SHORT_STEP if channels == 1 and size < STEP else STEP
    steps = size // step
    _steps(
        out, target, address, layout, plane, step, steps, count, channels, flipped, means, scales,
        past,
    )  # fmt: skip
    if steps * step == size:
        return
    pixel = 1 if layout == PLANAR else channels
    if steps > 0:
        # The last whole step once more, moved to the end of the line.
        begin = 0 if flipped else count - step // channels
        _steps(
            out, target + size - step, address + begin * pixel, layout, plane, step, 1,
            step // channels, channels, flipped, means, scales, False,
        )  # fmt: skip
        return
    apart = plane if layout == PLANAR else 1
    for c in range(channels):
        channel = channels - 1 - c if layout == REVERSED else c
        values = array_at(address + channel * apart, (count - 1) * pixel + 1, np.uint8)
        for x in range(count):
            value = np.float32(values[(count - 1 - x if flipped else x) * pixel])
            out[target + x * channels + c] = (value - means[c]) * scales[c]


@kernel
def _steps(
    out: Any,
    target: int,
    address: int,
    layout: int,
    plane: int,
    step: int,
    steps: int,
    count: int,
    channels: int,
    flipped: bool,
    means: Any,
    scales: Any,
    past: bool,
) -> None:
    if steps == 0:
        return
    if flipped:  # backwards from the line's end
        address += (count - steps * (step // channels)) * (1 if layout == PLANAR else channels)
    line = array_at(address, 1, np.uint8)
    if step == SHORT_STEP:
        normalised_tile(
            out, target, line, 0, plane, means, scales, steps, flipped, past, 1, 0, 0, SHORT_STEP
        )
    elif channels == 1:
        normalised_tile(
            out, target, line, 0, plane, means, scales, steps, flipped, past, 1, 0, 0, STEP
        )
    elif layout == INTERLEAVED:
        normalised_tile(
            out, target, line, 0, plane, means, scales, steps, flipped, past, 3, 0, 0, STEP
        )
    elif layout == REVERSED:
        normalised_tile(
            out, target, line, 0, plane, means, scales, steps, flipped, past, 3, 0, 1, STEP
        )
    else:
        normalised_tile(
            out, target, line, 0, plane, means, scales, steps, flipped, past, 3, 1, 0, STEP
        )


@kernel
def filled_line(out: Any, target: int, count: int, channels: int, means: Any, scales: Any) -> None:
    """Write (0 - mean) * scale of `count` pixels."""
    line = out[target:][: count * channels]
    for i in range(len(line)):
        line[i] = (np.float32(0.0) - means[i % channels]) * scales[i % channels]


@kernel
def finished_line(
    out: Any,
    values: Any,
    means: Any,
    scales: Any,
    channels: int,
    colours: Any,
    is_coloured: bool,
    past: bool,
) -> None:
    """Write (v - mean) * scale of the values, M v + b in place of the pixel v if `is_coloured`.

    There are as many means and scales as values. `out` may be `values`.
    """
    size, steps = len(out), 0
    if channels == 3 or not is_coloured:
        steps = size // STEP
        finished_tile(out, 0, values, 0, means, 0, scales, steps, colours, is_coloured, past)
    for place in range(steps * STEP, size, channels):
        if is_coloured and channels == 3:
            red, green, blue = values[place], values[place + 1], values[place + 2]
            for c in range(3):
                mixed = colours[4 * c] * red + colours[4 * c + 1] * green
                mixed = mixed + colours[4 * c + 2] * blue + colours[4 * c + 3]
                out[place + c] = (mixed - means[place + c]) * scales[place + c]
        else:
            for i in range(place, place + channels):
                value = values[i]
                if is_coloured:
                    value = colours[0] * value + colours[1]
                out[i] = (value - means[i]) * scales[i]
