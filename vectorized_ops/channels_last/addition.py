"""Addition: where two branches of a network join."""

from __future__ import annotations

import math

from vectorized_ops.channels_last.rows import FLOAT, long_rows, pass_arguments
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.kernels.channels_last import activation as kernels


def add(left: AnyArray, right: AnyArray, out: AnyArray, relu: bool = False) -> None:
    """See `vectorized_ops.reference.addition.add`; `out` may be `left` or `right`."""
    count, length, (first, second, target) = long_rows(left, right, out)
    floor = 0.0 if relu else -math.inf
    kernels.join(pass_arguments(count, length, [target], [first, second], scalar=floor), FLOAT)
