from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.implementations import operations
from vectorized_ops.shapes import ConvolutionShape, DenseShape, MaxPoolingShape, PoolingShape
from vectorized_ops.shapes.arrays import channel_values, operand, places


def test_arrays_are_those_of_the_implementation() -> None:
    reference = operations("reference")
    assert (operand(reference, (2, 3, 3, 4)) == 0.5).all()
    assert places(reference, (2, 3, 3, 4)).dtype == np.uint8
    first, second = channel_values(1.0, 5, 2)
    assert first is not second
    assert first.tolist() == [1.0] * 5


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(2, 5, 5, 3, 4, (3, 3)),
        DenseShape(2, 5, 3),
        MaxPoolingShape(2, 3, PoolingShape(4, 4, (2, 2), (2, 2))),
    ],
    ids=lambda shape: shape.kind,
)
def test_every_direction_has_a_call(shape) -> None:
    calls = shape.calls(operations("reference"))
    assert set(calls.runs) == set(shape.costs)
    for run in calls.runs.values():
        run()
