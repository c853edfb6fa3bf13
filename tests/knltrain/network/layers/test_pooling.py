"""Shapes of poolings."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import AveragePooling, GlobalAveragePooling, MaxPooling, Pooling, Shape
from vectorized_ops.shapes.pooling import WindowPoolingShape

POOLINGS = (MaxPooling, AveragePooling)


@pytest.mark.parametrize("kind", POOLINGS)
@pytest.mark.parametrize(
    ("numbers", "input_shape", "output_shape"),
    [
        ((2, 2), (24, 24, 20), (12, 12, 20)),
        ((3, 2), (8, 7, 5), (3, 3, 5)),
        ((3, 2, 1), (112, 112, 64), (56, 56, 64)),
        (((1, 3), (1, 2)), (4, 7, 2), (4, 3, 2)),
        ((3, 2, 0, True), (32, 32, 32), (16, 16, 32)),
        ((5, 3, 0, True), (14, 14, 512), (4, 4, 512)),
    ],
)
def test_output_shape(
    kind: type[Pooling], numbers: tuple[int, ...], input_shape: Shape, output_shape: Shape
) -> None:
    layer = kind("p", *numbers)
    assert layer.output_shape((input_shape,)) == output_shape
    assert layer.parameters((input_shape,)) == ()
    operation = layer.operation(3, (input_shape,))
    assert isinstance(operation, WindowPoolingShape)
    assert (operation.inputs, operation.outputs) == ((3, *input_shape), (3, *output_shape))


def test_global_pooling_leaves_one_value_per_channel() -> None:
    assert GlobalAveragePooling("p").output_shape(((7, 5, 512),)) == (512,)


@pytest.mark.parametrize("kind", POOLINGS)
def test_numbers_out_of_range_are_refused(kind: type[Pooling]) -> None:
    with pytest.raises(NetworkError, match="layer 'p': kernel = -2, expected at least 1"):
        kind("p", -2, 2)
    with pytest.raises(
        NetworkError, match=r"padding = \(1, 2\), expected at most half of kernel = 3"
    ):
        kind("p", 3, 2, (1, 2))


def test_square_pair_and_single_number_are_the_same() -> None:
    assert MaxPooling("p", (3, 3), (2, 2), (1, 1)) == MaxPooling("p", 3, 2, 1)
    assert MaxPooling("p", 3, 2, 1) != AveragePooling("p", 3, 2, 1)
