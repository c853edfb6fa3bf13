"""From pictures of bytes to a network's images in one pass: crop, resize, flip, colour, normalise.

A line at a time goes through all of it while it is in the first-level cache. What is copied without
a change of size or colours goes from bytes to normalised floats in registers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, final

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, FloatArray
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.raw_arrays import stack_vector
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.pictures.lines import (
    INTERLEAVED,
    PLANAR,
    REVERSED,
    copied_line,
    filled_line,
    finished_line,
)
from vectorized_ops.numba.kernels.pictures.means import mean_line, mean_pixel, with_mean
from vectorized_ops.numba.kernels.pictures.resizing import resized_line, tap_table, taps
from vectorized_ops.numba.kernels.pictures.tiles import STEP
from vectorized_ops.pictures import PicturesOf, Pixels
from vectorized_ops.reference.pictures import PicturePlan, check_pass, check_plan

_NOTHING = np.empty(0, np.float32)
_NO_PLACES = np.empty(0, np.int64)
_FACTS = 8
"""Of each picture: address, bytes from line to line and plane to plane, layout, height, width,
whether it is flipped, and whether it is copied without resizing."""


@final
class PicturePass:
    """See `vectorized_ops.reference.pictures.PicturePass`.

    It may be used by several threads at once. With `threads` above 1 a call divides its pictures
    among so many of Numba's threads.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        mean: FloatArray,
        scale: FloatArray,
        mean_picture: FloatArray | None = None,
        threads: int = 1,
    ) -> None:
        check_pass(image_shape, mean, scale, mean_picture)
        self._shape, self._threads = image_shape, threads
        values = max(image_shape[1] * image_shape[2], STEP)
        self._means, self._scales = (
            np.resize(np.ascontiguousarray(one, np.float32), values) for one in (mean, scale)
        )
        self._zeros, self._ones = np.zeros(STEP, np.float32), np.ones(STEP, np.float32)
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
        pictures, facts = _facts_of(pictures)
        boxes = np.ascontiguousarray(plan.boxes, np.float64)
        facts[:, 6] = plan.flipped
        whole = (boxes == np.floor(boxes)).all(axis=1)
        facts[:, 7] = whole & (boxes[:, 2:] == self._shape[:2]).all(axis=1)
        flat = out.reshape(-1)
        floats, starts, most, room = self._room(facts, boxes)
        given = (
            facts, boxes, _flat(plan.colours), _flat(plan.of_mean), _flat(plan.offsets, _NO_PLACES),
            self._means, self._scales, self._zeros, self._ones, self._mean_picture,
            *self._mean_shape, flat, *self._shape, self._past(flat), floats, starts, most, room,
        )  # fmt: skip
        if self._threads == 1:
            _write(*given, 0, len(pictures))
        else:
            _write_in_parallel(*given, len(pictures), self._threads)

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
        needed = self._threads * (most * (width + 1) + room + 2 * width * channels + 4)
        mine = self._scratch
        if not hasattr(mine, "floats") or mine.floats.size < needed:
            mine.floats = np.zeros(needed, np.float32)
            mine.starts = np.zeros(self._threads * width, np.int64)
        return mine.floats, mine.starts, most, room


def _flat(array: AnyArray | None, empty: AnyArray = _NOTHING) -> AnyArray:
    return empty if array is None else np.ascontiguousarray(array, empty.dtype).reshape(-1)


def _facts_of(pictures: Sequence[Pixels]) -> tuple[Sequence[Pixels], Any]:
    """The facts int64 (n,_FACTS) of pictures, and what holds their memory: they or copies."""
    if isinstance(pictures, PicturesOf) and _is_known(pictures[0]):
        facts = np.tile(np.array(_facts(pictures.pixels[0]), np.int64), (len(pictures), 1))
        facts[:, 0] += pictures.rows * pictures.pixels.strides[0]
        return pictures, facts
    pictures = [one if _is_known(one) else np.ascontiguousarray(one) for one in pictures]
    return pictures, np.array([_facts(picture) for picture in pictures], np.int64)


def _is_known(picture: Pixels) -> bool:
    """Whether the lines of a picture are those of a layout."""
    _, pixel, plane = picture.strides
    channels = picture.shape[2]
    return pixel == 1 or (pixel == 3 == channels and abs(plane) == 1)


def _facts(picture: Pixels) -> tuple[int, ...]:
    line, pixel, plane = picture.strides
    height, width, channels = picture.shape
    address = picture.__array_interface__["data"][0]
    layout = PLANAR
    if channels == 3 == pixel:
        layout = INTERLEAVED if plane == 1 else REVERSED
        address -= 2 * (layout == REVERSED)
    return address, line, plane, layout, height, width, 0, 0


@parallel_kernel
def _write_in_parallel(
    facts: Any, boxes: Any, colours: Any, of_mean: Any, offsets: Any, means: Any, scales: Any,
    zeros: Any, ones: Any, mean_picture: Any, mean_height: int, mean_width: int, out: Any,
    height: int, width: int, channels: int, past: bool, floats: Any, starts: Any, most: int,
    room: int, pictures: int, threads: int,
) -> None:  # fmt: skip
    own = len(floats) // threads
    for thread in numba.prange(threads):
        _write(
            facts, boxes, colours, of_mean, offsets, means, scales, zeros, ones, mean_picture,
            mean_height, mean_width, out, height, width, channels, past,
            floats[thread * own :][:own], starts[thread * width :][:width], most, room,
            part(pictures, thread, threads), part(pictures, thread + 1, threads),
        )  # fmt: skip


@kernel
def _write(
    facts: Any, boxes: Any, colours: Any, of_mean: Any, offsets: Any, means: Any, scales: Any,
    zeros: Any, ones: Any, mean_picture: Any, mean_height: int, mean_width: int, out: Any,
    height: int, width: int, channels: int, past: bool, floats: Any, starts: Any, most: int,
    room: int, first: int, last: int,
) -> None:  # fmt: skip
    """Write the images `first` to before `last`."""
    line, entries = width * channels, channels * (channels + 1)
    weights, sums = floats[: most * (width + 1)], floats[most * (width + 1) :][:room]
    rest = floats[most * (width + 1) + room :]
    mean_room, raw = rest[:line], rest[line:][: line + 4]
    matrix, mean = stack_vector(12, np.float32), stack_vector(3, np.float32)
    is_coloured, has_mean_picture = len(colours) > 0, len(mean_picture) > 0
    for i in range(first, last):
        image = out[i * height * line :][: height * line]
        if facts[i, 7] != 0 and not (is_coloured or has_mean_picture):
            _copy(facts, boxes, i, 0, height, image, width, channels, means, scales, past)
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
                    _copy(facts, boxes, i, y, y + 1, raw, width, channels, zeros, ones, False)
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
def _copy(
    facts: Any, boxes: Any, i: int, first: int, last: int, out: Any, width: int, channels: int,
    means: Any, scales: Any, past: bool,
) -> None:  # fmt: skip
    """Write lines `first` to before `last` of a box of whole pixels, as large as the image."""
    top, left = int(boxes[i, 0]), int(boxes[i, 1])
    address, distance, plane, layout, tall, wide = facts[i, :6]
    flipped = facts[i, 6] != 0
    lead, behind = min(max(0, -left), width), min(max(0, left + width - wide), width)
    count = max(0, width - lead - behind)
    before = behind if flipped else lead
    after = before + count
    begin = address + (left + lead) * (1 if layout == PLANAR else channels)
    for y in range(first, last):
        line, target = top + y, (y - first) * width * channels
        if not 0 <= line < tall or count == 0:
            filled_line(out, target, width, channels, means, scales)
            continue
        if before > 0:
            filled_line(out, target, before, channels, means, scales)
        copied_line(
            out, target + before * channels, begin + line * distance, layout, plane, count,
            channels, flipped, means, scales, past and count == width,
        )  # fmt: skip
        if after < width:
            filled_line(
                out, target + after * channels, width - after, channels, means, scales
            )  # fmt: skip


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
