from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from contracts.convolution import draw_convolution
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.numba.kernels.convolution.taps import TapTables, backward_tables, forward_tables
from vectorized_ops.shapes import ConvolutionShape

IMAGES = 16


def pairs(shape: ConvolutionShape) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every output pixel, tap and input pixel inside the image that meet."""
    for y, x, r, s in np.ndindex(shape.lines, shape.pixels, *shape.kernel):
        down = y * shape.stride[0] + r * shape.dilation[0] - shape.padding[0]
        right = x * shape.stride[1] + s * shape.dilation[1] - shape.padding[1]
        if 0 <= down < shape.height and 0 <= right < shape.width:
            yield (y, x), (r, s), (down, right)


def steps_of(tables: TapTables, pixel: int) -> list[tuple[int, int]]:
    """Where each step of a pixel reads its inputs, and which row of the packed weights."""
    kind = tables.classes[pixel]
    first, count = tables.first[kind], tables.count[kind]
    return [
        (tables.bases[pixel] + place + step * IMAGES, row + step)
        for place, row, steps in tables.segments.reshape(-1, 3)[first : first + count].tolist()
        for step in range(steps)
    ]


def defined(met: list[tuple[int, int]], distance: int, channels: int) -> list[tuple[int, int]]:
    """The same by definition, `met` being input pixels and taps in order of the weights."""
    return [
        (pixel * distance + c * IMAGES, tap * channels + c)
        for pixel, tap in met
        for c in range(channels)
    ]


@settings(max_examples=60)
@given(data=st.data())
def test_every_output_meets_the_taps_inside_the_image_and_no_others(data: st.DataObject) -> None:
    shape = draw_convolution(data.draw, (1, 3))
    channels = shape.channels // shape.groups
    distance = shape.channels * IMAGES + data.draw(st.sampled_from([0, 0, 16]))
    tables = forward_tables(shape, distance, IMAGES)
    met: dict[int, list[tuple[int, int]]] = {}
    for (y, x), (r, s), (down, right) in pairs(shape):
        tap = r * shape.kernel[1] + s
        met.setdefault(y * shape.pixels + x, []).append((down * shape.width + right, tap))
    for pixel in range(shape.lines * shape.pixels):
        expected = defined(met.get(pixel, []), distance, channels)
        assert steps_of(tables, pixel) == expected


@settings(max_examples=60)
@given(data=st.data())
def test_every_input_meets_the_outputs_that_saw_it_and_no_others(data: st.DataObject) -> None:
    shape = draw_convolution(data.draw, (1, 3))
    filters, (_, columns) = shape.filters // shape.groups, shape.kernel
    distance = shape.filters * IMAGES + data.draw(st.sampled_from([0, 0, 16]))
    tables = backward_tables(shape, distance, IMAGES)
    met: dict[int, list[tuple[int, int]]] = {}
    for (y, x), (r, s), (down, right) in pairs(shape):
        tap = r * columns + columns - 1 - s
        met.setdefault(down * shape.width + right, []).append((tap, y * shape.pixels + x))
    for pixel in range(shape.height * shape.width):
        ordered = [(seen, tap) for tap, seen in sorted(met.get(pixel, []))]
        expected = defined(ordered, distance, filters)
        assert steps_of(tables, pixel) == expected


def segments_inside(tables: TapTables) -> int:
    """How many segments the class with the most steps has."""
    steps = tables.segments.reshape(-1, 3)[:, 2]
    ranges = zip(tables.first, tables.count, strict=True)
    return max((steps[first : first + count].sum(), count) for first, count in ranges)[1]


@pytest.mark.parametrize("tables", [forward_tables, backward_tables])
def test_neighbouring_taps_are_one_segment_where_pixels_lie_close_together(tables: Any) -> None:
    shape = ConvolutionShape(16, 50, 40, 3, 3, (3, 5), padding=(1, 2))
    dense = tables(shape, 3 * IMAGES, IMAGES)
    assert segments_inside(dense) == 3
    assert segments_inside(tables(shape, 7 * IMAGES, IMAGES)) == 15
    grouped = ConvolutionShape(16, 50, 40, 3, 3, (3, 5), padding=(1, 2), groups=3)
    assert segments_inside(tables(grouped, 3 * IMAGES, IMAGES)) == 15
    # Lines: first, last, between; pixels: two on either side, and between.
    assert len(dense.count) == 3 * 5
    assert len(dense.classes) == len(dense.bases) == 50 * 40


def test_pixels_that_no_window_saw_have_no_segments() -> None:
    tables = backward_tables(ConvolutionShape(16, 5, 5, 2, 3, (1, 1), (2, 2)), 48, IMAGES)
    counts = tables.count[tables.classes].reshape(5, 5)
    assert (counts[::2, ::2] == 1).all()
    assert counts.sum() == 9
