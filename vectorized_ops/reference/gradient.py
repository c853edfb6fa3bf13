"""Writes or accumulates gradients of activations, masked where a ReLU passed nothing."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


@np.errstate(invalid="ignore")  # inf - inf: what is not a number is carried on
def write_gradient(value: AnyArray, out: AnyArray, add: bool, mask: AnyArray | None) -> None:
    """Write `value`, or with `add` its sum with what `out` holds; zero where `mask` <= 0.

    All of one shape, float32. `mask` is the output of the ReLU that made the values whose gradient
    this is, so that its backward pass costs no pass of its own; where it is NaN, the gradient
    passes.
    """
    total = out + value if add else value
    out[...] = total if mask is None else np.where(mask <= 0, 0, total)
