from __future__ import annotations

import pytest

from vectorized_ops.implementations import operations
from vectorized_ops.shapes import (
    AdditionShape,
    ConcatenationShape,
    CopyShape,
    DropoutShape,
    OperationShape,
    RectifierShape,
)

from .per_value import MAPS, check


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (RectifierShape(MAPS), {"forward": (1, 2), "backward_data": (1, 3)}),
        (DropoutShape(MAPS, 0.5), {"forward": (1, 2), "backward_data": (1, 2)}),
        (AdditionShape(MAPS), {"forward": (1, 3)}),
        (ConcatenationShape(MAPS), {"forward": (0, 2), "backward_data": (0, 2)}),
        (CopyShape(MAPS), {"forward": (0, 2), "backward_data": (0, 2)}),
    ],
    ids=lambda each: each.kind if isinstance(each, OperationShape) else "",
)
def test_costs_are_so_many_operations_and_passes_of_each_value(
    shape: OperationShape, expected: dict[str, tuple[int, int]]
) -> None:
    check(shape, expected)


def test_dropout_is_not_timed_where_an_implementation_has_none() -> None:
    shape = DropoutShape(MAPS, 0.5)
    assert shape.calls(operations("onednn")) is None
    assert set(shape.calls(operations("reference")).runs) == set(shape.costs)
