"""Costs of operations bound by memory, counted per value."""

from __future__ import annotations

from vectorized_ops.shapes import Cost, OperationShape

MAPS = (2, 1, 1, 5)
VALUES = 10


def check(shape: OperationShape, expected: dict[str, tuple[int, int]]) -> None:
    """Expect by direction so many operations and so many passes over VALUES values."""
    assert shape.costs == {
        direction: Cost(flops * VALUES, 4 * passes * VALUES)
        for direction, (flops, passes) in expected.items()
    }
    assert not shape.is_product
    assert str(shape).split()[0] in ("1x1x5", "5", "10")
