from __future__ import annotations

from vectorized_ops.shapes import SgdShape, SoftmaxCrossEntropyShape

from .per_value import check


def test_costs_are_so_many_operations_and_passes_of_each_value() -> None:
    check(SoftmaxCrossEntropyShape(2, 5), {"forward": (5, 2)})
    check(SgdShape(10), {"update": (4, 5)})
