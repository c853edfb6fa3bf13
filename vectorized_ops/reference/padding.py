"""Padding of maps, defined."""

from __future__ import annotations

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient

Sides = tuple[int, int, int, int]
"""Lines above and below a map, pixels left and right of it."""


def check_sides(sides: Sides) -> None:
    """Raise OperationError for sides below 0."""
    if min(sides) < 0:
        raise OperationError(
            f"padding by {sides} (above, below, left, right) was asked for: expected 0 or more"
        )


class Padding:
    """Maps (N, H, W, C) float32 amid lines and pixels of one `value`; see `Sides`.

    Raises OperationError for sides below 0.
    """

    def __init__(self, sides: Sides, value: float = 0.0) -> None:
        check_sides(sides)
        self._sides, self._value = sides, value

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write the padded maps; `out` must not overlap `values`."""
        out[...] = self._value
        self._inside(out)[...] = values

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the part of the gradient that belongs to the maps; `out` must not overlap it.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        write_gradient(self._inside(gradient), out, add, mask)

    def _inside(self, padded: AnyArray) -> AnyArray:
        above, below, left, right = self._sides
        height, width = padded.shape[1:3]
        return padded[:, above : height - below, left : width - right]
