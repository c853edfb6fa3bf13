"""Smooth activation functions."""

from __future__ import annotations

from vectorized_ops.channels_last.neighbours import as_images
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.activation import Activation as Vectorised
from vectorized_ops.reference.activation import Activation as Definition


class Activation:
    """See `vectorized_ops.reference.activation.Activation`; the same for any memory order."""

    def __init__(self, function: str) -> None:
        self._definition, self._vectorised = Definition(function), Vectorised(function)

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs."""
        seen = as_images(inputs, out)
        if seen is None:
            self._definition.forward(inputs, out)
        else:
            self._vectorised.forward(*seen)

    def backward(
        self, gradient: AnyArray, inputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs; `out` may be `gradient`."""
        seen = as_images(gradient, inputs, out)
        if seen is None:
            self._definition.backward(gradient, inputs, out, add)
        else:
            arriving, given, target = seen
            self._vectorised.backward(arriving, given, target, add)
