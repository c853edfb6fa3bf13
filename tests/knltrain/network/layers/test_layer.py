"""What all layers refuse alike."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn import functional

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePooling,
    Layer,
    LayerNormalisation,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.layers.layer import Pair, Window, check_counts, pair, shortest

ON_MAPS: tuple[Layer, ...] = (
    Convolution("late", 2, 1),
    MaxPooling("late", 2, 2),
    AveragePooling("late", 2, 2),
    GlobalAveragePooling("late"),
    LocalResponseNormalisation("late"),
    ChannelShuffle("late", 2),
    Flatten("late"),
)


@pytest.mark.parametrize("layer", ON_MAPS, ids=lambda layer: type(layer).__name__)
def test_layer_that_needs_a_feature_map_refuses_a_vector(layer: Layer) -> None:
    with pytest.raises(NetworkError, match=r"layer 'late' needs a feature map .* \(500,\)"):
        layer.output_shape(((500,),))


@pytest.mark.parametrize(
    "layer",
    [
        *ON_MAPS,
        BatchNormalisation("late"),
        ChannelScale("late"),
        ChannelSlice("late", 0, 1),
        Dense("late", 2),
        Dropout("late"),
        LayerNormalisation("late"),
        ReLU("late"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layer_with_one_input_refuses_several(layer: Layer) -> None:
    with pytest.raises(NetworkError, match="layer 'late' takes one input, but is given 2: join"):
        layer.output_shape(((8, 8, 2), (8, 8, 2)))


def test_first_number_below_one_is_named() -> None:
    check_counts("fine", units=1)
    with pytest.raises(NetworkError, match="layer 'd': groups = 0, expected at least 1"):
        check_counts("d", units=1, groups=0)


def pairs(least: int, most: int) -> st.SearchStrategy[Pair]:
    return st.tuples(st.integers(least, most), st.integers(least, most))


@given(
    size=pairs(1, 12),
    kernel=pairs(1, 4),
    stride=pairs(1, 4),
    padding=pairs(0, 3),
    dilation=pairs(1, 3),
)
def test_positions_are_those_of_a_convolution_in_pytorch(
    size: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> None:
    reach = [dilation[axis] * (kernel[axis] - 1) + 1 for axis in (0, 1)]
    assume(all(reach[axis] <= size[axis] + 2 * padding[axis] for axis in (0, 1)))
    output = functional.conv2d(
        torch.empty(1, 1, *size, device="meta"),
        torch.empty(1, 1, *kernel, device="meta"),
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
    found = Window("w", kernel, stride, padding, dilation).positions(*size)
    assert found == tuple(output.shape[2:])


@given(size=pairs(1, 12), kernel=pairs(1, 5), stride=pairs(1, 5), data=st.data())
def test_positions_that_round_up_are_those_of_a_pooling_in_pytorch(
    size: Pair, kernel: Pair, stride: Pair, data: st.DataObject
) -> None:
    padding = tuple(data.draw(st.integers(0, kernel[axis] // 2)) for axis in (0, 1))
    assume(all(kernel[axis] <= size[axis] + 2 * padding[axis] for axis in (0, 1)))
    output = functional.max_pool2d(
        torch.empty(1, 1, *size, device="meta"), kernel, stride, padding, ceil_mode=True
    )
    found = Window("w", kernel, stride, (padding[0], padding[1])).positions(*size, ceil=True)
    assert found == tuple(output.shape[2:])


def test_last_window_that_would_start_behind_the_image_is_left_out() -> None:
    window = Window("w", (1, 1), (3, 3), (0, 0))
    assert window.positions(2, 4, ceil=True) == (1, 2)


@pytest.mark.parametrize("size", [(4, 9), (9, 4)])
def test_window_larger_than_the_padded_image_is_refused(size: Pair) -> None:
    window = Window("big", (3, 3), (1, 1), (0, 0), dilation=(2, 2))
    with pytest.raises(NetworkError, match="layer 'big': a window of 5 does not fit into 4 pixels"):
        window.positions(*size)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"kernel": (0, 3)}, r"kernel = \(0, 3\), expected at least 1"),
        ({"stride": (0, 0)}, "stride = 0, expected at least 1"),
        ({"padding": (0, -1)}, r"padding = \(0, -1\), expected at least 0"),
        ({"dilation": (0, 0)}, "dilation = 0, expected at least 1"),
    ],
)
def test_number_out_of_range_is_refused(numbers: dict[str, Pair], message: str) -> None:
    usual = {"kernel": (3, 3), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
    with pytest.raises(NetworkError, match=f"layer 'w': {message}"):
        Window("w", **{**usual, **numbers})


def test_extent_has_one_way_to_be_written() -> None:
    assert (shortest((3, 3)), shortest(3), shortest((3, 1))) == (3, 3, (3, 1))
    assert (pair(3), pair((3, 1))) == ((3, 3), (3, 1))
