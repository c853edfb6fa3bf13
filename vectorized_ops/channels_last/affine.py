"""Affine functions of each value."""

from __future__ import annotations

from vectorized_ops.channels_last.neighbours import as_images
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.affine import Affine as Vectorised
from vectorized_ops.reference.affine import Affine as Definition


class Affine:
    """See `vectorized_ops.reference.affine.Affine`; the same for any memory order."""

    def __init__(self, factor: float, offset: float = 0.0) -> None:
        self._definition, self._vectorised = Definition(factor, offset), Vectorised(factor, offset)

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write factor * inputs + offset; `out` may be `inputs`."""
        seen = as_images(inputs, out)
        if seen is None:
            self._definition.forward(inputs, out)
        else:
            self._vectorised.forward(*seen)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write, or add to `out`, factor * gradient; `out` may be `gradient` without `add`."""
        seen = as_images(gradient, out, out if mask is None else mask)
        if seen is None:
            self._definition.backward(gradient, out, add, mask)
        else:
            given, target, cut = seen
            self._vectorised.backward(given, target, add, None if mask is None else cut)
