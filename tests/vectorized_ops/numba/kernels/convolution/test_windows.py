from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from contracts.convolution import draw_convolution
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vectorized_ops.numba.kernels.convolution.windows import (
    BEGIN,
    COLUMN,
    END,
    FIRST,
    LEFT,
    PLACES,
    REACH,
    RESULTS,
    RIGHT,
    Windows,
    reach,
    windows,
    windows_take,
)
from vectorized_ops.shapes import ConvolutionShape

Met = Counter[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]


def defined(shape: ConvolutionShape, backward: bool) -> Met:
    """Every result, tap and input inside the image that meet."""
    met: Met = Counter()
    for y, x, r, s in np.ndindex(shape.lines, shape.pixels, *shape.kernel):
        down = y * shape.stride[0] + r * shape.dilation[0] - shape.padding[0]
        right = x * shape.stride[1] + s * shape.dilation[1] - shape.padding[1]
        if 0 <= down < shape.height and 0 <= right < shape.width:
            both = ((down, right), (y, x)) if backward else ((y, x), (down, right))
            met[both[0], (r, s), both[1]] += 1
    return met


def told(found: Windows, lines: int) -> Met:
    """The same by the tables."""
    met: Met = Counter()
    for h in range(lines):
        begin = 2 * found.first[h]
        pairs = found.met[begin : begin + 2 * found.count[h]].reshape(-1, 2).tolist()
        for group, (pixels, columns) in zip(found.groups.tolist(), found.sizes, strict=True):
            for p, s in np.ndindex(pixels, columns):
                right = group[PLACES + p * found.stride + s]
                for down, r in pairs:
                    if right >= 0:
                        result = h, group[COLUMN] + p * found.step
                        met[result, (r, group[FIRST] + s * found.turn), (down, right)] += 1
    return met


@settings(max_examples=200)
@given(
    data=st.data(),
    backward=st.booleans(),
    pixels=st.sampled_from([1, 3, 4]),
    room=st.integers(0, 20),
)
def test_results_meet_what_they_meet_by_definition(
    data: st.DataObject, backward: bool, pixels: int, room: int
) -> None:
    shape = draw_convolution(data.draw, [1])
    assume(windows_take(shape))
    found = windows(shape, backward, pixels, room)
    lines = shape.height if backward else shape.lines
    assert told(found, lines) == defined(shape, backward)
    met = [found.met[2 * found.first[h] :][: 2 * found.count[h] : 2] for h in range(lines)]
    for h in range(lines):
        assert all(found.lowest[h] <= line for later in met[h:] for line in later)
        assert all(line < found.lowest[h] + found.span for line in met[h])
    assert found.strips[:, RESULTS].sum() == (shape.width if backward else shape.pixels)
    assert found.strips[:, END].tolist() == [*found.strips[1:, BEGIN], len(found.groups)]
    for strip in found.strips:
        places = found.groups[strip[BEGIN] : strip[END], PLACES:]
        inside = places[places >= 0]
        assert not inside.size or (strip[LEFT], strip[RIGHT]) == (inside.min(), inside.max() + 1)
        assert strip[RIGHT] - strip[LEFT] <= found.width


@pytest.mark.parametrize("backward", [False, True])
def test_neighbours_share_a_group(backward: bool) -> None:
    shape = ConvolutionShape(16, 7, 7, 3, 3, (3, 3), padding=(1, 1), groups=3)
    found = windows(shape, backward, 4, 7)
    assert found.sizes == ((4, 3), (3, 3))
    assert found.groups[:, COLUMN].tolist() == [0, 4]
    assert found.groups[:, REACH].tolist() == [reach(4, 3, 1), reach(3, 3, 1)] == [6, 5]
    assert found.groups[0, PLACES:].tolist() == [-1, 0, 1, 2, 3, 4]
    assert found.groups[1, PLACES:].tolist() == [3, 4, 5, 6, -1, -1]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("room", "strips"), [(28, [28]), (27, [16, 12]), (13, [8, 8, 8, 4]), (5, [4] * 7)]
)
def test_columns_are_divided_where_there_is_no_room_for_all(
    backward: bool, room: int, strips: list[int]
) -> None:
    shape = ConvolutionShape(16, 28, 28, 3, 3, (3, 3), padding=(1, 1), groups=3)
    found = windows(shape, backward, 4, room)
    assert found.strips[:, RESULTS].tolist() == strips
    assert found.width <= max(room, 6)


def test_a_result_that_meets_nothing_has_no_columns() -> None:
    shape = ConvolutionShape(16, 4, 4, 3, 3, (1, 1), (2, 2), groups=3)
    found = windows(shape, True, 4, 4)
    assert found.step == 2
    assert found.sizes == ((2, 1), (2, 0))
