from __future__ import annotations

import pytest

from vectorized_ops.numba._window_blocks import (
    SIDE,
    blocks_fit,
    pixel_blocks,
    seen_by_block,
    window_blocks,
)
from vectorized_ops.shapes import PoolingShape

SHAPES = [
    PoolingShape(9, 12, (3, 3), (1, 1), (1, 1)),
    PoolingShape(11, 11, (2, 3), (1, 1), (1, 0)),
    PoolingShape(8, 9, (1, 2), (1, 1), (0, 1)),
    PoolingShape(8, 10, (3, 1), (1, 1), (1, 0)),
]


def held(shape: PoolingShape, window: int) -> dict[int, int]:
    """The columns of an image that a window holds, and their places."""
    start = window - shape.padding[1]
    return {start + i: i for i in range(shape.kernel[1]) if 0 <= start + i < shape.width}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_window_is_in_one_block_that_sees_exactly_its_pixels(shape: PoolingShape) -> None:
    found, size = [], seen_by_block(shape.kernel[1])
    for first, *rest in window_blocks(shape).tolist():
        exists, seen, places = rest[:SIDE], rest[SIDE : SIDE + size], rest[SIDE + size :]
        for i in range(SIDE):
            if exists[i]:
                found.append(first + i)
                read = {seen[j]: places[j] - i for j in range(i, i + shape.kernel[1])}
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


def test_blocks_are_for_small_windows_that_overlap_on_maps_of_some_size() -> None:
    assert all(blocks_fit(shape) for shape in SHAPES)
    assert not blocks_fit(PoolingShape(20, 20, (4, 3), (1, 1)))
    assert not blocks_fit(PoolingShape(20, 66, (3, 3), (1, 1)))
    assert not blocks_fit(PoolingShape(20, 20, (3, 3), (2, 1)))
    assert not blocks_fit(PoolingShape(20, 7, (3, 3), (1, 1), (1, 1)))
