from __future__ import annotations

import math

import pytest

from vectorized_ops.implementations import IMPLEMENTATIONS, operations
from vectorized_ops.shapes import (
    AdditionShape,
    ChannelProductShape,
    ConcatenationShape,
    CopyShape,
    OperationShape,
    PaddingShape,
)

from .per_value import MAPS, check


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (ChannelProductShape(MAPS), {"forward": (1, 2), "backward_data": (3, 5)}),
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


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_padding_costs_a_read_and_a_write_of_what_there_is(name: str) -> None:
    images, height, width, channels = MAPS
    shape = PaddingShape(MAPS, (1, 0, 2, 1))
    assert shape.outputs == (images, height + 1, width + 3, channels)
    values, padded = math.prod(MAPS), math.prod(shape.outputs)
    bytes_of = {direction: cost.compulsory_bytes for direction, cost in shape.costs.items()}
    assert bytes_of == {"forward": 4 * (values + padded), "backward_data": 8 * values}
    for run in shape.calls(operations(name)).runs.values():
        run()


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_products_of_channels_are_timed_in_both_directions(name: str) -> None:
    calls = ChannelProductShape(MAPS).calls(operations(name))
    assert set(calls.runs) == {"forward", "backward_data"}
    for run in calls.runs.values():
        run()
