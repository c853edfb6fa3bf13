"""Parametric rectified linear units, defined (He et al. 2015, arXiv 1502.01852)."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


class ParametricRectifier:
    """x where it is not below 0, slope * x elsewhere; the slope is a parameter.

    float32 arrays (N, H, W, C) or (N, C), slopes (C,), or (1,) for all channels. Where a gradient
    is 0, as in images that only fill up a vector, it adds nothing to that of the slopes.
    """

    @np.errstate(invalid="ignore")
    def forward(self, values: AnyArray, slopes: AnyArray, out: AnyArray) -> None:
        """Write the outputs; NaN stays NaN. `out` may be `values`."""
        out[...] = np.where(values < 0, values * slopes, values)

    @np.errstate(invalid="ignore")
    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        slopes: AnyArray,
        slopes_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of the slopes and of the values.

        Those are the sum of gradient * values where `values` < 0, and gradient * slope there, the
        gradient elsewhere. Without `add`, `out` may be `gradient`. `add` and `mask` as in
        `vectorized_ops.reference.gradient.write_gradient`.
        """
        below = values < 0
        products = np.where(below & (gradient != 0), gradient * values, 0)
        sums = products.sum(axis=tuple(range(values.ndim - 1)))
        slopes_out[...] = sums if len(slopes) == len(sums) else sums.sum()
        write_gradient(np.where(below, gradient * slopes, gradient), out, add, mask)
