"""Images made line by line, each going through all that is done to it while it is in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.raw_arrays import row, stack_vector
from vectorized_ops.numba.kernels.pictures.copying import PLANAR, copied_box
from vectorized_ops.numba.kernels.pictures.float_tiles import finished_tile
from vectorized_ops.numba.kernels.pictures.means import mean_line, mean_pixel, with_mean
from vectorized_ops.numba.kernels.pictures.resizing import resized_line, tap_table, taps
from vectorized_ops.numba.kernels.pictures.tiles import STEP


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


@kernel
def write_lines(
    facts: Any, boxes: Any, means: Any, scales: Any, out: Any, height: int, width: int,
    channels: int, past: bool, colours: Any, of_mean: Any, offsets: Any, zeros: Any,
    ones: Any, mean_picture: Any, mean_height: int, mean_width: int, floats: Any, starts: Any,
    most: int, room: int,
) -> None:  # fmt: skip
    """Write the images of the pictures that are not just copied: they are resized or recoloured."""
    line, entries = width * channels, channels * (channels + 1)
    weights, sums = floats[: most * (width + 1)], floats[most * (width + 1) :][:room]
    rest = floats[most * (width + 1) + room :]
    mean_room, raw = rest[:line], rest[line:][: line + 4]
    matrix, mean = stack_vector(12, np.float32), stack_vector(3, np.float32)
    is_coloured, has_mean_picture = len(colours) > 0, len(mean_picture) > 0
    for i in range(len(facts)):
        image = out[i * height * line :][: height * line]
        if facts[i, 7] != 0 and not (is_coloured or has_mean_picture):
            continue
        if is_coloured:
            given = colours[i * entries :][:entries]
            for k in range(entries):
                matrix[k] = given[k]
        number, left, right = 1, 0, 0
        if facts[i, 7] == 0:
            number, left, right = tap_table(
                facts[i, 5], boxes[i, 1], boxes[i, 3], facts[i, 6] != 0, starts[:width], weights
            )
            for k in range((number + 1) * channels):
                sums[(right - left) * channels + k] = np.float32(0.0)
        is_raw = len(of_mean) > 0
        for turn in range(2 if is_raw else 1):
            if turn == 1:
                mean_pixel(image, channels, mean)
                more = of_mean[i * channels * channels :][: channels * channels]
                with_mean(given, more, mean, channels, matrix)
            for y in range(height):
                target, values = image[y * line :][:line], raw[: line + 4]
                if turn == 1:
                    values = image[y * line :]
                elif facts[i, 7] != 0:
                    copied_box(
                        row(facts, i), y, y + 1, raw, width, channels, zeros, ones, False
                    )  # fmt: skip
                else:
                    _resize(
                        facts, boxes, i, y, height, left, right - left, starts[:width], weights,
                        number, most, channels, sums, raw,
                    )  # fmt: skip
                if is_raw and turn == 0:
                    for k in range(line):
                        target[k] = values[k]
                    continue
                less = means[:line]
                if has_mean_picture:
                    top, begin = 0, 0
                    if len(offsets) > 0:
                        top, begin = offsets[2 * i], offsets[2 * i + 1]
                    place = mean_line(
                        mean_picture, top + y, begin, mean_height, mean_width, channels,
                        facts[i, 6] != 0, mean_room,
                    )  # fmt: skip
                    less = mean_picture[place:][:line] if place >= 0 else mean_room[:line]
                finished_line(target, values, less, scales, channels, matrix, is_coloured, past)
    if past:
        finish_stores()


@kernel
def _resize(
    facts: Any, boxes: Any, i: int, y: int, height: int, first: int, size: int, starts: Any,
    weights: Any, number: int, most: int, channels: int, sums: Any, out: Any,
) -> None:  # fmt: skip
    """Write line `y` of a box in the image's size."""
    address, distance, plane, layout, tall, _ = facts[i, :6]
    of_lines = weights[most * len(starts) :][:most]
    start, count = taps(tall, boxes[i, 0], boxes[i, 2], height, y, of_lines)
    address += start * distance + first * (1 if layout == PLANAR else channels)
    resized_line(
        address, distance, plane, layout, of_lines, count, size, starts, weights, number, channels,
        sums, out,
    )  # fmt: skip
