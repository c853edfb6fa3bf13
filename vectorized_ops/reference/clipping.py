"""Clipping of gradients, by value and by their common norm, defined."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray
from vectorized_ops.parameter_groups import Clipping, ParameterGroups


def squared_norms(vector: AnyArray, groups: ParameterGroups) -> npt.NDArray[np.float64]:
    """Return the sum of squares of each group of `vector` (n,), added in double, (S,)."""
    squares = np.square(vector, dtype=np.float64)
    sums: npt.NDArray[np.float64] = np.add.reduceat(squares, groups.bounds[:-1])
    return sums


def clipped(gradient: AnyArray, groups: ParameterGroups, clipping: Clipping) -> AnyArray:
    """Return a copy of `gradient` (n,) float32 within the bounds of `clipping`.

    Groups of statistics stay as they are and count in no norm. A norm that is not a number
    clips nothing, so what made it so stays visible.
    """
    ordinary = np.repeat(groups.ordinary, np.diff(groups.bounds))
    bound = np.float32(clipping.value)
    out = np.where(ordinary, np.clip(gradient, -bound, bound), gradient)
    norm = math.sqrt(squared_norms(out, groups)[groups.ordinary].sum())
    if norm > clipping.norm:
        with np.errstate(invalid="ignore"):  # infinity times 0 is no number, as it should be
            out[ordinary] *= np.float32(clipping.norm / norm)
    return out
