from __future__ import annotations

import pytest

from vectorized_ops.implementations import IMPLEMENTATIONS, operations
from vectorized_ops.shapes import (
    ChannelScaleShape,
    ChannelSelectionShape,
    Cost,
    TimedShape,
    shuffled_channels,
)

from .per_value import MAPS, check

SLICE = ChannelSelectionShape(MAPS, 1, 3)


def test_costs_are_so_many_operations_and_passes_of_each_value() -> None:
    product = (1, 2)
    expected = {"forward": product, "backward_data": product, "backward_weights": product}
    check(ChannelScaleShape(MAPS), expected)
    check(ChannelSelectionShape(MAPS, 0, 5), {"forward": (0, 2), "backward_data": (0, 2)})


def test_slice_moves_its_own_channels_and_writes_zeros_beside_their_gradient() -> None:
    assert SLICE.costs == {"forward": Cost(0, 4 * 8), "backward_data": Cost(0, 4 * (4 + 10))}
    assert str(SLICE) == "1x1x5 channels 1 to 2"


def test_shuffle_takes_from_each_group_in_turn() -> None:
    assert shuffled_channels(6, 3) == (0, 2, 4, 1, 3, 5)
    shuffle = ChannelSelectionShape(MAPS, 1, 5, 2)
    assert shuffle.chosen == (1, 3, 2, 4)
    assert str(shuffle) == "1x1x5 channels 1 to 4 in 2 groups"


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("shape", [SLICE, ChannelScaleShape(MAPS)], ids=lambda each: each.kind)
def test_every_direction_is_timed(shape: TimedShape, name: str) -> None:
    calls = shape.calls(operations(name))
    assert calls is not None
    assert set(calls.runs) == set(shape.costs)
    for run in calls.runs.values():
        run()
