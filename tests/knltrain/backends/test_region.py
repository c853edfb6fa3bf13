from __future__ import annotations

import pytest

from knltrain.backends.region import Region, kind_of
from vectorized_ops.shapes import ConvolutionShape, DenseShape, OperationShape


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (ConvolutionShape(1, 8, 8, 4, 4, (3, 1)), "convolution 3x1"),
        (ConvolutionShape(1, 8, 8, 4, 8, (5, 5), groups=2), "grouped convolution 5x5"),
        (ConvolutionShape(1, 8, 8, 4, 8, (3, 3), groups=4), "depthwise convolution 3x3"),
        (DenseShape(1, 4, 4), "dense"),
    ],
)
def test_a_kind_is_what_the_field_calls_it(shape: OperationShape, expected: str) -> None:
    assert kind_of(shape) == expected


def test_several_batches_cost_so_many_times_as_much() -> None:
    one = Region("conv", "forward", "convolution 3x3", (), None, (), 4, 3, None, 20, 30, 40)
    assert one.times(2) == Region(
        "conv", "forward", "convolution 3x3", (), None, (), 8, 6, None, 40, 60, 80
    )
