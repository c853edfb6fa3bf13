"""Rectified linear units."""

from __future__ import annotations

import math

from vectorized_ops.channels_last.neighbours import as_images
from vectorized_ops.channels_last.rows import FLOAT, long_rows, pass_arguments
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.kernels.channels_last import activation as kernels
from vectorized_ops.numba.rectifier import Rectifier as Vectorised
from vectorized_ops.reference.rectifier import Rectifier as Definition


class Rectifier:
    """See `vectorized_ops.reference.rectifier.Rectifier`; the same for any memory order."""

    def __init__(self, slope: float = 0.0, ceiling: float = math.inf) -> None:
        self._definition, self._vectorised = Definition(slope, ceiling), Vectorised(slope, ceiling)
        self._is_plain = slope == 0 and ceiling == math.inf

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs; `out` may be `inputs`."""
        if self._is_plain:
            relu_forward(inputs, out)
            return
        seen = as_images(inputs, out)
        if seen is None:
            self._definition.forward(inputs, out)
        else:
            self._vectorised.forward(*seen)

    def backward(
        self, gradient: AnyArray, outputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs; `out` may be `gradient`."""
        if self._is_plain and not add:
            relu_backward(gradient, outputs, out)
            return
        seen = as_images(gradient, outputs, out)
        if seen is None:
            self._definition.backward(gradient, outputs, out, add)
        else:
            arriving, told, target = seen
            self._vectorised.backward(arriving, told, target, add)


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.rectifier.relu_forward`; `out` may be `inputs`."""
    count, length, (given, target) = long_rows(inputs, out)
    kernels.rectify(pass_arguments(count, length, [target], [given]), FLOAT)


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.rectifier.relu_backward`; `out` may be `gradient`."""
    count, length, (above, told, target) = long_rows(gradient, outputs, out)
    kernels.cut(pass_arguments(count, length, [target], [told], summands=[above]), FLOAT)
