"""x"""

from __future__ import annotations

from vectorized_ops.shapes import AdditionShape, Cost, OperationShape


def test_costs_add_up() -> None:
    assert Cost(1, 20) + Cost(300, 4) == Cost(301, 24)


def test_activations_in_bfloat16_are_half_the_bytes_and_parameters_are_not() -> None:
    cost = Cost(7, 100, fixed_bytes=20) + Cost(1, 40)
    assert cost.kept_in(2) == Cost(8, 20 + 60)
    assert cost.kept_in(4) == cost


def test_equal_operations_are_one_key() -> None:
    """So that a network's layers of one shape are counted together."""
    first, same, other = (AdditionShape((2, 3, channels)) for channels in (5, 5, 6))
    assert {first: 1} == {same: 1}
    assert first != other
    assert isinstance(first, OperationShape)
    assert not first.is_product
