"""From pictures of bytes to a network's images in one pass: crop, resize, flip, colour, normalise.

What is copied without a change of size or colours goes from bytes to normalised floats in
registers, by a small kernel that is compiled soon. Of all else a line at a time goes through all of
it while it is in the first-level cache.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.raw_arrays import row, stack_vector
from vectorized_ops.numba.kernels.pictures.copying import (
    FACTS,
    INTERLEAVED,
    PLANAR,
    REVERSED,
    copied_box,
    tile_of,
)
from vectorized_ops.numba.kernels.pictures.lines import finished_line
from vectorized_ops.numba.kernels.pictures.means import mean_line, mean_pixel, with_mean
from vectorized_ops.numba.kernels.pictures.resizing import resized_line, tap_table, taps
from vectorized_ops.numba.kernels.pictures.tiles import STEP
from vectorized_ops.pictures import PicturesOf, Pixels
from vectorized_ops.reference.pictures import PicturePlan, check_pass, check_plan

_NOTHING = np.empty(0, np.float32)
_NO_PLACES = np.empty(0, np.int64)


@final
class PicturePass:
    """See `vectorized_ops.reference.pictures.PicturePass`.

    It may be used by several threads at once.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        mean: FloatArray,
        scale: FloatArray,
        mean_picture: FloatArray | None = None,
    ) -> None:
        check_pass(image_shape, mean, scale, mean_picture)
        self._shape = image_shape
        _, width, channels = image_shape
        line = np.zeros(max(width * channels, STEP), np.float32)
        self._zeros, self._ones = line, line + 1
        self._means, self._scales = (
            np.resize(np.ascontiguousarray(one, np.float32), line.size) for one in (mean, scale)
        )
        self._mean_picture, self._mean_shape = _NOTHING, (0, 0)
        if mean_picture is not None:
            both = np.stack((mean_picture, mean_picture[:, ::-1]))
            self._mean_picture = np.ascontiguousarray(both, np.float32).reshape(-1)
            self._mean_shape = mean_picture.shape[0], mean_picture.shape[1]
        self._scratch = threading.local()

    def write(self, pictures: Sequence[Pixels], plan: PicturePlan, out: AnyArray) -> None:
        """Write the images of `pictures` to `out` (n,H,W,C), which is contiguous."""
        check_plan(pictures, plan, out, self._shape)
        if not out.flags.c_contiguous or out.dtype != np.float32:
            raise OperationError(
                f"images were to be written to {out.dtype} with strides {out.strides}: expected "
                "float32, one value after another"
            )
        if not pictures:
            return
        pictures, facts = self._facts_of(pictures)
        boxes, flat = np.ascontiguousarray(plan.boxes, np.float64), out.reshape(-1)
        facts[:, 6], facts[:, 9:] = plan.flipped, boxes[:, :2]
        is_plain, past = plan.colours is None and not self._mean_picture.size, self._past(flat)
        given = facts, boxes, self._means, self._scales, flat, *self._shape, past
        if not _copy(*given, is_plain) and is_plain:
            return
        floats, starts, most, room = self._room(facts, boxes)
        _write(
            *given, _flat(plan.colours), _flat(plan.of_mean), _flat(plan.offsets, _NO_PLACES),
            self._zeros, self._ones, self._mean_picture, *self._mean_shape, floats, starts, most,
            room,
        )  # fmt: skip

    def _past(self, flat: AnyArray) -> bool:
        """Whether to store past the caches: lines then are whole cache lines."""
        _, width, channels = self._shape
        return width * channels % 16 == 0 and streamed(flat, flat.nbytes)

    def _room(self, facts: Any, boxes: Any) -> tuple[AnyArray, AnyArray, int, int]:
        """Scratch memory of the calling thread, which grows with the largest picture."""
        height, width, channels = self._shape
        sized = facts[:, 7] == 0
        most = room = 0
        if sized.any():
            steps = boxes[sized][:, 2:] / (height, width)
            most = 2 * math.ceil(max(1.0, float(steps.max()))) + 2
            room = 2 * (int(facts[sized, 5].max()) + most + 1) * channels
        needed = most * (width + 1) + room + 2 * width * channels + 4
        mine = self._scratch
        if not hasattr(mine, "floats") or mine.floats.size < needed:
            mine.floats = np.zeros(needed, np.float32)
            mine.starts = np.zeros(width, np.int64)
        return mine.floats, mine.starts, most, room

    def _facts_of(self, pictures: Sequence[Pixels]) -> tuple[Sequence[Pixels], Any]:
        """The facts int64 (n,FACTS) of pictures, and what holds their memory: they or copies."""
        facts = np.empty((len(pictures), FACTS), np.int64)
        if isinstance(pictures, PicturesOf) and _is_known(pictures.pixels[0]):
            pixels, rows = pictures.pixels, pictures.rows
            if rows.min() < 0 or rows.max() >= len(pixels):
                raise IndexError(f"pictures {rows} of {len(pixels)}")
            facts[:] = self._facts(pixels[0])
            facts[:, 0] += rows * pixels.strides[0]
            return pictures, facts
        pictures = [one if _is_known(one) else np.ascontiguousarray(one) for one in pictures]
        for i, picture in enumerate(pictures):
            facts[i] = self._facts(picture)
        return pictures, facts

    def _facts(self, picture: Pixels) -> tuple[int, ...]:
        line, pixel, plane = picture.strides
        height, width, channels = picture.shape
        address = picture.__array_interface__["data"][0]
        layout = PLANAR
        if channels == 3 == pixel:
            layout = INTERLEAVED if plane == 1 else REVERSED
            address -= 2 * (layout == REVERSED)
        tile = tile_of(layout, self._shape[1], channels)
        return address, line, plane, layout, height, width, 0, 0, tile, 0, 0


def _flat(array: AnyArray | None, empty: AnyArray = _NOTHING) -> AnyArray:
    return empty if array is None else np.ascontiguousarray(array, empty.dtype).reshape(-1)


def _is_known(picture: Pixels) -> bool:
    """Whether the lines of a picture are those of a layout."""
    _, pixel, plane = picture.strides
    channels = picture.shape[2]
    return pixel == 1 or (pixel == 3 == channels and abs(plane) == 1)


@kernel
def _copy(
    facts: Any, boxes: Any, means: Any, scales: Any, out: Any, height: int, width: int,
    channels: int, past: bool, is_plain: bool,
) -> int:  # fmt: skip
    """Note of which pictures the part is copied, and if `is_plain` do so; return how many others.

    There are boxes of whole pixels as large as the image.
    """
    line, others = width * channels, 0
    for i in range(len(facts)):
        fact, box = row(facts, i), row(boxes, i)
        whole = box[0] == fact[9] and box[1] == fact[10] and box[2] == height and box[3] == width
        fact[7] = whole
        if whole and is_plain:
            image = out[i * height * line :]
            copied_box(fact, 0, height, image, width, channels, means, scales, past)
        else:
            others += 1
    if past:
        finish_stores()
    return others


@kernel
def _write(
    facts: Any, boxes: Any, means: Any, scales: Any, out: Any, height: int, width: int,
    channels: int, past: bool, colours: Any, of_mean: Any, offsets: Any, zeros: Any,
    ones: Any, mean_picture: Any, mean_height: int, mean_width: int, floats: Any, starts: Any,
    most: int, room: int,
) -> None:  # fmt: skip
    """Write the images of the pictures that `_copy` has left."""
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
