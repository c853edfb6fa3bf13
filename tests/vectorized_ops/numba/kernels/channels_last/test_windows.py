from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import Lanes, tile
from vectorized_ops.numba.kernels.channels_last.windows import Axis
from vectorized_ops.shapes import PoolingShape


@tile
def ranges_tile(typingctx: Any, out: Any, numbers: Any, position: Any) -> Any:
    """The sources of a window, and the windows that hold a position."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, given = lanes.pointer(0, args[0]), lanes.pointer(1, args[1])
        axis = Axis(*(lanes.load_integer(lanes.at(given, i)) for i in range(5)))
        results = *axis.window(lanes, args[2]), *axis.holders(lanes, args[2])
        for i, result in enumerate(results):
            builder.store(result, lanes.at(target, i))
        return context.get_dummy_value()

    return types.void(out, numbers, types.int64), generate


@kernel
def ranges(out: Any, numbers: Any, position: int) -> None:
    ranges_tile(out, numbers, position)


@pytest.mark.parametrize(
    ("extent", "size", "stride", "padding", "ceil"),
    [
        (9, 3, 2, 1, False),
        (9, 3, 2, 0, True),
        (5, 2, 3, 1, True),
        (4, 4, 1, 3, False),
        (7, 1, 3, 0, 0),
    ],
)
def test_windows_and_their_sources_find_each_other(
    extent: int, size: int, stride: int, padding: int, ceil: bool
) -> None:
    shape = PoolingShape(extent, 1, (size, 1), (stride, 1), (padding, 0), bool(ceil))
    numbers = np.array([extent, shape.lines, size, stride, padding], np.int64)

    def found(position: int) -> list[int]:
        out = np.zeros(6, np.int64)
        ranges(out, numbers, position)
        return out.tolist()

    forward = set()
    for window in range(shape.lines):
        first, last, begin, *_ = found(window)
        assert begin == window * stride - padding
        assert 0 <= first < last <= extent
        forward |= {(window, pixel, pixel - begin) for pixel in range(first, last)}
    backward = set()
    for pixel in range(extent):
        *_, first, last, place = found(pixel)
        backward |= {(window, pixel, place - window * stride) for window in range(first, last)}
    assert forward == backward
    assert {place for *_, place in forward} <= set(range(size))
