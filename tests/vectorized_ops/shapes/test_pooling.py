from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.shapes import (
    AveragePoolingShape,
    Cost,
    GlobalAveragePoolingShape,
    MaxPoolingShape,
    PoolingShape,
)

SIDES = st.tuples(st.integers(1, 12), st.integers(1, 12))
STEPS = st.tuples(st.integers(1, 4), st.integers(1, 4))
BORDERS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(sides=SIDES, kernel=STEPS, stride=STEPS, padding=BORDERS, ceil=st.booleans())
def test_pooling_has_the_shapes_of_pytorch(
    sides: Any, kernel: Any, stride: Any, padding: Any, ceil: bool
) -> None:
    assume(all(2 * border <= side for border, side in zip(padding, kernel, strict=True)))
    images = torch.zeros(1, 1, *sides)
    try:
        out = torch.nn.functional.max_pool2d(images, kernel, stride, padding, ceil_mode=ceil)
    except RuntimeError:
        with pytest.raises(OperationError, match="expected a window that fits; use a smaller"):
            PoolingShape(*sides, kernel, stride, padding, ceil)
        return
    shape = PoolingShape(*sides, kernel, stride, padding, ceil)
    assert (shape.lines, shape.pixels) == tuple(out.shape[2:])


@given(sides=SIDES, kernel=STEPS, stride=STEPS, padding=BORDERS, ceil=st.booleans())
def test_every_pooled_window_holds_a_pixel_of_the_image(
    sides: Any, kernel: Any, stride: Any, padding: Any, ceil: bool
) -> None:
    try:
        shape = PoolingShape(*sides, kernel, stride, padding, ceil)
    except OperationError:
        return
    for axis, count in enumerate((shape.lines, shape.pixels)):
        last = (count - 1) * stride[axis] - padding[axis]
        assert last < sides[axis]
        assert kernel[axis] - padding[axis] > 0
        if not ceil:
            assert last + kernel[axis] <= sides[axis] + padding[axis]


POOLING: dict[str, Any] = {"height": 4, "width": 4, "kernel": (3, 3), "stride": (1, 1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width = 0 .* at least 1"),
        ({"kernel": (0, 3)}, r"kernel = \(0, 3\) .* at least 1"),
        ({"padding": (1, 3)}, "3x3 pixels with padding 1x3 .* below the kernel.* less padding"),
        ({"height": 2}, "3x3 pixels was asked for on 2x4 pixels with padding 0x0"),
    ],
)
def test_impossible_poolings_are_refused(change: dict[str, Any], message: str) -> None:
    PoolingShape(**POOLING)
    with pytest.raises(OperationError, match=message):
        PoolingShape(**POOLING | change)


def test_costs_are_those_of_the_thesis() -> None:
    windows = PoolingShape(4, 4, (2, 2), (2, 2))
    largest, mean = MaxPoolingShape(3, 5, windows), AveragePoolingShape(3, 5, windows)
    assert largest.costs == {
        "forward": Cost(240, 4 * (240 + 60) + 60),
        "backward_data": Cost(60, 4 * (240 + 60) + 60),
    }
    assert mean.costs["forward"] == mean.costs["backward_data"] == Cost(240, 4 * (240 + 60))
    whole = GlobalAveragePoolingShape((3, 4, 4, 5))
    assert whole.costs["forward"] == Cost(240, 4 * (240 + 15))
    assert (str(largest), str(whole)) == ("4x4x5, 2x2, stride 2", "4x4x5")
