"""Affine functions of each value, defined."""

from __future__ import annotations

import math

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


def check_affine(factor: float, offset: float) -> None:
    """Raise OperationError for numbers that are not finite."""
    if not (math.isfinite(factor) and math.isfinite(offset)):
        raise OperationError(
            f"an affine function with factor {factor} and offset {offset} was asked for: expected "
            "finite numbers"
        )


class Affine:
    """factor * x + offset; float32 arrays (N, H, W, C) or (N, I), the numbers rounded to float32.

    Raises OperationError for numbers that are not finite.
    """

    def __init__(self, factor: float, offset: float = 0.0) -> None:
        check_affine(factor, offset)
        self._factor, self._offset = np.float32(factor), np.float32(offset)

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write factor * inputs + offset; `out` may be `inputs`."""
        out[...] = self._factor * inputs + self._offset

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write factor * gradient; without `add`, `out` may be `gradient`.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        write_gradient(self._factor * gradient, out, add, mask)
