from __future__ import annotations

import pytest

from knltrain.network.layers import Convolution
from knltrain.network.zoo.convolving import divisible, unbiased


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 1), (5, 2)])
def test_maps_keep_their_size_but_for_the_stride(size: int, stride: int) -> None:
    layer = unbiased("c", 4, size, stride)
    assert isinstance(layer, Convolution)
    assert not layer.bias
    assert layer.output_shape(((8, 8, 3),)) == (8 // stride, 8 // stride, 4)


@pytest.mark.parametrize(
    ("channels", "by", "expected"),
    [(16, 8, 16), (4, 8, 8), (20, 8, 24), (18, 8, 24), (192, 56, 224), (84, 56, 112), (67, 8, 64)],
)
def test_multiples_are_near_but_not_much_smaller(channels: float, by: int, expected: int) -> None:
    assert divisible(channels, by) == expected
