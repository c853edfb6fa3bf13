from __future__ import annotations

import pytest

from vectorized_ops.implementations import IMPLEMENTATIONS, operations
from vectorized_ops.reference.activation import FUNCTIONS
from vectorized_ops.shapes import (
    ACTIVATION_FUNCTIONS,
    ActivationShape,
    AffineShape,
    DropoutShape,
    OperationShape,
    ParametricRectifierShape,
    RectifierShape,
)

from .per_value import MAPS, check


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (ActivationShape(MAPS, "silu"), {"forward": (1, 2), "backward_data": (1, 3)}),
        (AffineShape(MAPS), {"forward": (2, 2), "backward_data": (1, 2)}),
        (ParametricRectifierShape(MAPS), {"forward": (1, 2), "backward_data": (3, 3)}),
        (RectifierShape(MAPS), {"forward": (1, 2), "backward_data": (1, 3)}),
        (DropoutShape(MAPS, 0.5), {"forward": (1, 2), "backward_data": (1, 2)}),
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


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "shape",
    [ActivationShape(MAPS, "gelu"), AffineShape(MAPS), ParametricRectifierShape(MAPS)],
    ids=str,
)
def test_all_directions_that_cost_are_timed(name: str, shape: OperationShape) -> None:
    calls = shape.calls(operations(name))
    assert set(calls.runs) == set(shape.costs)
    for run in calls.runs.values():
        run()


def test_the_names_of_functions_are_those_that_are_defined() -> None:
    assert list(ACTIVATION_FUNCTIONS) == list(FUNCTIONS)
