from __future__ import annotations

import pytest

from vectorized_ops.numba.kernels.pooling.blocks import (
    SIDE,
    pixel_blocks,
    pixels_fit,
    seen_by_block,
    strip_of,
    window_blocks,
    windows_fit,
)
from vectorized_ops.shapes import PoolingShape

SHAPES = [
    PoolingShape(9, 12, (3, 3), (1, 1), (1, 1)),
    PoolingShape(11, 11, (2, 3), (1, 1), (1, 0)),
    PoolingShape(6, 7, (1, 2), (1, 1), (0, 1)),
    PoolingShape(8, 10, (3, 1), (1, 1), (1, 0)),
]
APART = [
    PoolingShape(16, 19, (3, 3), (2, 2), ceil=True),
    PoolingShape(17, 18, (2, 3), (2, 2), (1, 1)),
    PoolingShape(16, 17, (3, 2), (2, 2), (1, 1), ceil=True),
]


def held(shape: PoolingShape, window: int) -> dict[int, int]:
    """The columns of an image that a window holds, and their places."""
    start = window * shape.stride[1] - shape.padding[1]
    return {start + i: i for i in range(shape.kernel[1]) if 0 <= start + i < shape.width}


@pytest.mark.parametrize("shape", SHAPES + APART)
def test_each_window_is_in_one_block_that_sees_exactly_its_pixels(shape: PoolingShape) -> None:
    found, stride = [], shape.stride[1]
    size = seen_by_block(shape.kernel[1], stride)
    for first, *rest in window_blocks(shape).tolist():
        exists, seen, places = rest[:SIDE], rest[SIDE : SIDE + size], rest[SIDE + size :]
        for i in range(SIDE):
            if exists[i]:
                found.append(first + i)
                begin = i * stride
                window = range(begin, begin + shape.kernel[1])
                read = {seen[j]: places[j] - begin for j in window}
                assert read == held(shape, first + i)
    assert found == list(range(shape.pixels))


@pytest.mark.parametrize("shape", SHAPES)
def test_each_pixel_is_in_one_block_that_sees_all_windows_that_hold_it(shape: PoolingShape) -> None:
    found, size = [], seen_by_block(shape.kernel[1])
    for first, *rest in pixel_blocks(shape).tolist():
        exists, seen, known = rest[:SIDE], rest[SIDE : SIDE + size], rest[SIDE + size :]
        assert all(0 <= window < shape.pixels for window in seen)
        for i in range(SIDE):
            if exists[i]:
                found.append(first + i)
                read = {seen[j] for j in range(i, i + shape.kernel[1]) if known[j]}
                holding = {w for w in range(shape.pixels) if first + i in held(shape, w)}
                assert read == holding
    assert found == list(range(shape.width))


def test_blocks_are_for_small_windows_on_maps_of_some_size() -> None:
    assert all(windows_fit(shape) and pixels_fit(shape) for shape in SHAPES)
    assert all(windows_fit(shape) and not pixels_fit(shape) for shape in APART)
    assert windows_fit(PoolingShape(112, 112, (3, 3), (2, 2), ceil=True))
    for fit in (windows_fit, pixels_fit):
        assert fit(PoolingShape(64, 64, (3, 3), (1, 1), (1, 1)))
        assert not fit(PoolingShape(20, 80, (3, 3), (1, 1), (1, 1)))
        assert not fit(PoolingShape(20, 20, (4, 3), (1, 1)))
        assert not fit(PoolingShape(20, 20, (3, 3), (2, 1)))
        assert not fit(PoolingShape(20, 20, (3, 3), (3, 3)))
        assert not fit(PoolingShape(20, 20, (3, 1), (2, 2)))
        assert not fit(PoolingShape(20, 5, (3, 3), (1, 1), (1, 1)))


def test_strips_are_as_long_as_what_waits_leaves_room_for() -> None:
    assert [strip_of(waiting) for waiting in (0, 1, 128, 256)] == [128, 128, 60, 30]
