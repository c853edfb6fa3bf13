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
from vectorized_ops.numba.emit.raw_arrays import row
from vectorized_ops.numba.kernels.pictures.copying import (
    FACTS,
    INTERLEAVED,
    PLANAR,
    REVERSED,
    copied_box,
    tile_of,
)
from vectorized_ops.numba.kernels.pictures.tiles import STEP
from vectorized_ops.pictures import PicturePlan, PicturesOf, Pixels, check_pass, check_plan

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
        from vectorized_ops.numba.kernels.pictures.lines import write_lines

        floats, starts, most, room = self._room(facts, boxes)
        write_lines(
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
