from __future__ import annotations

from vectorized_ops.implementations import operations
from vectorized_ops.shapes import BatchNormalisationShape, LocalResponseShape

from .per_value import MAPS, check

RESPONSE = LocalResponseShape(MAPS, 5, 1e-4, 0.75, 1.0)


def test_costs_are_so_many_operations_and_passes_of_each_value() -> None:
    sums, forward, backward = (2, 1), (3, 2), (8, 5)
    batch = {"statistics": sums, "forward": forward, "backward_data": backward}
    check(BatchNormalisationShape(MAPS), batch)
    check(RESPONSE, {"forward": (12, 2), "backward_data": (24, 3)})


def test_local_response_is_not_timed_where_an_implementation_has_none() -> None:
    assert RESPONSE.calls(operations("onednn")) is None
    assert set(RESPONSE.calls(operations("reference")).runs) == set(RESPONSE.costs)
