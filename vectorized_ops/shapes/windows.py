"""Windows on maps: their places, and checks of their sizes."""

from __future__ import annotations

from vectorized_ops.errors import OperationError

__all__ = ["Pair"]

Pair = tuple[int, int]


def positions(extent: int, kernel: int, stride: int, padding: int) -> int:
    """Windows along an axis of `extent` pixels."""
    return (extent + 2 * padding - kernel) // stride + 1


def check_least(what: str, name: str, value: int | Pair, least: int) -> None:
    """Refuse numbers below `least`: OperationError."""
    if min(value if isinstance(value, tuple) else (value,)) < least:
        raise OperationError(
            f"{what} with {name} = {value} was asked for: expected at least {least}"
        )
