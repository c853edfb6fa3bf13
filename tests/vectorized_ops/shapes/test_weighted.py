"""x"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.shapes import ConvolutionShape, Cost, DenseShape

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


def test_groups_divide_channels_and_filters() -> None:
    shape = ConvolutionShape(2, 5, 5, 6, 9, (3, 3), groups=3)
    channels, filters = zip(*shape.group_slices, strict=True)
    assert channels == (slice(0, 2), slice(2, 4), slice(4, 6))
    assert filters == (slice(0, 3), slice(3, 6), slice(6, 9))


def test_flops_count_multiplications_and_additions_of_all_images() -> None:
    shape = ConvolutionShape(8, 7, 9, 6, 4, (3, 2), stride=(2, 1), padding=(1, 0), groups=2)
    assert (shape.lines, shape.pixels) == (4, 8)
    assert shape.flops == 2 * 8 * (4 * 8) * 4 * (6 // 2) * (3 * 2)


def test_each_tensor_is_moved_once_and_groups_need_fewer_operations() -> None:
    """VGG-16's second layer with 32 images: 2 N K C R S P Q."""
    shape = ConvolutionShape(32, 224, 224, 64, 64, (3, 3), padding=(1, 1))
    moved = 4 * (2 * 32 * 224 * 224 * 64 + 64 * 64 * 9)
    assert set(shape.costs) == {"forward", "backward_data", "backward_weights"}
    assert shape.costs["forward"] == Cost(2 * 32 * 64 * 64 * 9 * 224 * 224, moved)
    grouped = ConvolutionShape(32, 224, 224, 64, 64, (3, 3), padding=(1, 1), groups=4)
    assert grouped.flops == shape.flops // 4


def test_text_tells_stride_and_groups() -> None:
    plain = ConvolutionShape(8, 12, 10, 6, 4, (5, 3))
    assert str(plain) == "12x10x6 -> 4, 5x3"
    other = ConvolutionShape(8, 12, 10, 6, 4, (5, 5), stride=(4, 4), groups=2)
    assert str(other) == "12x10x6 -> 4, 5x5, stride 4, 2 groups"


CONVOLUTION: dict[str, Any] = {
    "images": 1, "height": 4, "width": 4, "channels": 6, "filters": 4, "kernel": (3, 3)
}  # fmt: skip


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


def test_each_direction_is_a_product_of_matrices() -> None:
    shape = DenseShape(2, 3, 5)
    cost = Cost(60, 4 * (6 + 15 + 10))
    assert shape.costs == dict.fromkeys(("forward", "backward_data", "backward_weights"), cost)
    assert str(shape) == "3 -> 5"
