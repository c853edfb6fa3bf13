from __future__ import annotations

import pytest

from vectorized_ops.implementations import IMPLEMENTATIONS, operations
from vectorized_ops.shapes import (
    BatchNormalisationShape,
    LayerNormalisationShape,
    LocalResponseShape,
    WithinChannelShape,
)

from .per_value import MAPS, check

WITHIN = WithinChannelShape(MAPS, 3, 1e-4, 0.75)
RESPONSE = LocalResponseShape(MAPS, 5, 1e-4, 0.75, 1.0)


def test_costs_are_so_many_operations_and_passes_of_each_value() -> None:
    sums, forward, backward = (2, 1), (3, 2), (8, 5)
    batch = {"statistics": sums, "forward": forward, "backward_data": backward}
    check(BatchNormalisationShape(MAPS), batch)
    check(LayerNormalisationShape(MAPS), {"forward": (7, 2), "backward_data": (16, 3)})
    check(RESPONSE, {"forward": (12, 2), "backward_data": (24, 3)})
    check(WITHIN, {"forward": (13, 2), "backward_data": (26, 3)})


def test_local_response_is_not_timed_where_an_implementation_has_none() -> None:
    for shape in (RESPONSE, WITHIN):
        assert shape.calls(operations("onednn")) is None
        assert set(shape.calls(operations("reference")).runs) == set(shape.costs)


def test_normalisation_within_channels_is_timed_in_both_directions() -> None:
    for run in WITHIN.calls(operations("numba")).runs.values():
        run()


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_layer_normalisation_is_timed_in_both_directions(name: str) -> None:
    calls = LayerNormalisationShape(MAPS).calls(operations(name))
    assert calls is not None
    assert set(calls.runs) == {"forward", "backward_data"}
    for run in calls.runs.values():
        run()
