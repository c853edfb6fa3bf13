from __future__ import annotations

import pytest

from vectorized_ops.shapes import (
    AdditionShape,
    BatchNormalisationShape,
    ConcatenationShape,
    CopyShape,
    Cost,
    DropoutShape,
    LocalResponseShape,
    OperationShape,
    RectifierShape,
    SgdShape,
    SoftmaxCrossEntropyShape,
)

MAPS = (2, 1, 1, 5)
VALUES = 10


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (
            BatchNormalisationShape(MAPS),
            {"statistics": (2, 1), "forward": (3, 2), "backward_data": (8, 5)},
        ),
        (
            LocalResponseShape(MAPS, 5, 1e-4, 0.75, 1.0),
            {"forward": (12, 2), "backward_data": (24, 3)},
        ),
        (RectifierShape(MAPS), {"forward": (1, 2), "backward_data": (1, 3)}),
        (DropoutShape(MAPS, 0.5), {"forward": (1, 2), "backward_data": (1, 2)}),
        (AdditionShape(MAPS), {"forward": (1, 3)}),
        (ConcatenationShape(MAPS), {"forward": (0, 2), "backward_data": (0, 2)}),
        (CopyShape(MAPS), {"forward": (0, 2), "backward_data": (0, 2)}),
        (SoftmaxCrossEntropyShape(2, 5), {"forward": (5, 2)}),
        (SgdShape(10), {"update": (4, 5)}),
    ],
    ids=lambda each: each.kind if isinstance(each, OperationShape) else "",
)
def test_costs_are_so_many_operations_and_passes_of_each_value(
    shape: OperationShape, expected: dict[str, tuple[int, int]]
) -> None:
    assert shape.costs == {
        direction: Cost(flops * VALUES, 4 * passes * VALUES)
        for direction, (flops, passes) in expected.items()
    }
    assert not shape.is_product
    assert str(shape) in ("1x1x5", "5", "10")
