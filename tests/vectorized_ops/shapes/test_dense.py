from __future__ import annotations

from vectorized_ops.shapes import Cost, DenseShape


def test_each_direction_is_a_product_of_matrices() -> None:
    shape = DenseShape(2, 3, 5)
    cost = Cost(60, 4 * (6 + 15 + 10))
    assert shape.costs == dict.fromkeys(("forward", "backward_data", "backward_weights"), cost)
    assert str(shape) == "3 -> 5"
