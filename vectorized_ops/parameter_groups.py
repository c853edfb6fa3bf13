"""Parameter groups, parts of a vector that an optimizer treats alike; bounds of gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray


@dataclass(frozen=True, slots=True)
class Clipping:
    """Bounds of a gradient; infinity stands for none.

    First every value is brought into ±`value`. Then, where the 2-norm of all of them together is
    larger than `norm`, all are multiplied by norm / 2-norm (Pascanu, Mikolov, Bengio, *On the
    difficulty of training recurrent neural networks*, ICML 2013, algorithm 1).
    """

    norm: float = math.inf
    value: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class ParameterGroups:
    """How each of S groups of a packed vector moves; they cover it without a gap.

    Group s holds the values from bounds[s] up to bounds[s + 1]. Its learning rate is multiplied
    by rates[s], its weight decay is decays[s]. Where statistics[s] is a number m it holds running
    statistics instead: they move by w' = w - m*g and by nothing else, so no learning rate,
    momentum, decay or clipping, and they count in no norm. With m = 0 they stay, whatever g is.
    Raises OperationError for arrays of other shapes or types, and for bounds that do not rise
    from 0.
    """

    bounds: npt.NDArray[np.int64]
    """(S + 1,), from 0 to the vector's length."""
    rates: npt.NDArray[np.float32]
    """(S,)"""
    decays: npt.NDArray[np.float32]
    """(S,)"""
    statistics: npt.NDArray[np.float32]
    """(S,), NaN where a group holds no statistics."""

    def __post_init__(self) -> None:
        bounds = self.bounds
        if bounds.dtype != np.int64 or bounds.ndim != 1 or not _rise_from_zero(bounds):
            raise OperationError(
                f"bounds of parameter groups {bounds.tolist()} ({bounds.dtype}): expected int64 "
                "numbers that rise from 0 to the length of the packed vector"
            )
        for name in ("rates", "decays", "statistics"):
            _check(f"{name} of parameter groups", getattr(self, name), np.float32, len(bounds) - 1)

    @property
    def size(self) -> int:
        """Length of the packed vector."""
        return int(self.bounds[-1])

    @property
    def ordinary(self) -> npt.NDArray[np.bool_]:
        """Which groups hold no statistics, (S,)."""
        return np.isnan(self.statistics)

    def check(self, *vectors: AnyArray) -> None:
        """Raise OperationError unless all are contiguous float32 vectors of the packed length."""
        for vector in vectors:
            _check("a packed vector", vector, np.float32, self.size)


def _rise_from_zero(bounds: npt.NDArray[np.int64]) -> bool:
    return len(bounds) > 0 and bounds[0] == 0 and bool((np.diff(bounds) > 0).all())


def _check(what: str, array: AnyArray, dtype: Any, size: int) -> None:
    if array.dtype != dtype or array.shape != (size,) or not array.flags.c_contiguous:
        raise OperationError(
            f"{what} of type {array.dtype}, shape {array.shape} and strides {array.strides}: "
            f"expected contiguous {np.dtype(dtype)} ({size},), as the bounds of the parameter "
            "groups say"
        )
