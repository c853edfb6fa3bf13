"""Addition, defined: where two branches of a network join."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


@np.errstate(invalid="ignore")
def add(left: AnyArray, right: AnyArray, out: AnyArray, relu: bool = False) -> None:
    """Write left + right, with `relu` max(left + right, 0); NaN stays NaN.

    float32 arrays (N, H, W, C) or (N, I); `out` may be `left` or `right`.
    """
    np.add(left, right, out=out)
    if relu:
        np.maximum(out, 0, out=out)
