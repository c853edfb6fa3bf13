from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.shapes import ConvolutionShape, PoolingShape

SIDES = st.tuples(st.integers(1, 12), st.integers(1, 12))
STEPS = st.tuples(st.integers(1, 4), st.integers(1, 4))
BORDERS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(sides=SIDES, kernel=STEPS, stride=STEPS, padding=BORDERS, dilation=STEPS)
def test_convolutions_have_the_shapes_of_pytorch(
    sides: Any, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> None:
    try:
        shape = ConvolutionShape(2, *sides, 4, 6, kernel, stride, padding, dilation, groups=2)
    except OperationError as error:
        assert "use a smaller kernel or dilation, more padding or larger images" in str(error)
        assert any(
            side + 2 * border < (taps - 1) * step + 1
            for side, border, taps, step in zip(sides, padding, kernel, dilation, strict=True)
        )
        return
    layer = torch.nn.Conv2d(4, 6, kernel, stride, padding, dilation, groups=2)
    assert shape.weights == tuple(layer.weight.shape)
    assert shape.inputs == (2, *sides, 4)
    out = layer(torch.zeros(2, 4, *sides))
    assert shape.outputs == (2, shape.lines, shape.pixels, 6)
    assert shape.outputs == tuple(out.permute(0, 2, 3, 1).shape)


def test_flops_count_multiplications_and_additions_of_all_images() -> None:
    shape = ConvolutionShape(8, 7, 9, 6, 4, (3, 2), stride=(2, 1), padding=(1, 0), groups=2)
    assert (shape.lines, shape.pixels) == (4, 8)
    assert shape.flops == 2 * 8 * (4 * 8) * 4 * (6 // 2) * (3 * 2)


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


CONVOLUTION: dict[str, Any] = {
    "images": 1, "height": 4, "width": 4, "channels": 6, "filters": 4, "kernel": (3, 3)
}  # fmt: skip
POOLING: dict[str, Any] = {"height": 4, "width": 4, "kernel": (3, 3), "stride": (1, 1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": 0}, "images = 0 .* at least 1"),
        ({"stride": (1, 0)}, r"stride = \(1, 0\) .* at least 1"),
        ({"padding": (-1, 0)}, r"padding = \(-1, 0\) .* at least 0"),
        ({"groups": 4}, "channels = 6 in 4 groups .* multiple of 4; change channels or groups"),
        ({"groups": 3}, "filters = 4 in 3 groups .* multiple of 3; change filters or groups"),
        ({"dilation": (1, 2)}, "3x3 taps, 1x2 pixels apart, .* 4x4 pixels with padding 0x0"),
    ],
)
def test_impossible_convolutions_are_refused(change: dict[str, Any], message: str) -> None:
    ConvolutionShape(**CONVOLUTION)
    with pytest.raises(OperationError, match=message):
        ConvolutionShape(**CONVOLUTION | change)


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
