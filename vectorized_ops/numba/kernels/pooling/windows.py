"""Tables of the pixels in each pooling window, for the pooling kernels.

Places outside the image are left out of the tables, not padded by values that never win.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import AdaptivePoolingShape, PoolingShape


@dataclass(frozen=True, slots=True)
class Links:
    """For each target pixel, the source pixels that contribute to it, and in which place.

    Those of target t stand at starts[t, 0] <= i < starts[t + 1, 0]: sources[i] the number of a
    pixel, line by line, places[i] the place y*S + x in the window. The sources that the target
    after t is the first to need are fresh[i], starts[t, 1] <= i < starts[t + 1, 1]. All int64.
    """

    starts: AnyArray
    sources: AnyArray
    places: AnyArray
    fresh: AnyArray


def windows(shape: PoolingShape | AdaptivePoolingShape) -> tuple[Links, Links]:
    """Return links from image to windows, in the order of places, and from windows to image."""
    lines, rows, y = _along(shape, 0)
    pixels, columns, x = _along(shape, 1)
    window = (lines[:, None] * shape.pixels + pixels).reshape(-1)
    pixel = (rows[:, None] * shape.width + columns).reshape(-1)
    place = (y[:, None] * shape.kernel[1] + x).reshape(-1)
    forward = _links(window, pixel, place, shape.lines * shape.pixels)
    return forward, _links(pixel, window, place, shape.height * shape.width)


def _along(
    shape: PoolingShape | AdaptivePoolingShape, axis: int
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the windows along an axis, the lines of the image they hold, and in which place."""
    extent, lengths = shape.height if axis == 0 else shape.width, shape.lengths(axis)
    number = np.repeat(np.arange(len(lengths)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    line = np.repeat(shape.starts(axis), lengths) + place
    inside = (line >= 0) & (line < extent)
    return number[inside], line[inside], place[inside]


def _links(target: AnyArray, source: AnyArray, place: AnyArray, targets: int) -> Links:
    order = np.lexsort((place, target))
    target, source, place = target[order], source[order], place[order]
    fresh, first_link = np.unique(source, return_index=True)
    first_need = target[first_link]
    starts = np.empty((targets + 1, 2), np.int64)
    starts[:, 0] = np.searchsorted(target, np.arange(targets + 1))
    starts[:, 1] = np.searchsorted(np.sort(first_need), np.arange(1, targets + 2))
    return Links(starts, source, place, fresh[np.argsort(first_need, kind="stable")])


def window_sizes(shape: PoolingShape | AdaptivePoolingShape) -> AnyArray:
    """Return the pixels (lines * pixels,) by which the mean of each window divides."""
    sizes: AnyArray = np.multiply.outer(shape.counted(0), shape.counted(1)).reshape(-1)
    return sizes
