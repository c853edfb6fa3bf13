"""Reduces the vectors of several ranks to one, element by element, defined in NumPy.

Values are added, multiplied and compared in rank order, so the result is the same to the last bit
on every rank and in every run. float16 and bfloat16 are widened to float32 and rounded once, at the
end, to nearest even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vectorized_ops.bfloat16 import rounded, widened

AnyArray = npt.NDArray[Any]

SUM, MEAN, PRODUCT, MIN, MAX, AND, OR, XOR = range(8)
"""Operations. MEAN is for floating point only, AND, OR and XOR are bitwise and for integers only.
MIN and MAX keep the earlier of two values unless the later one is less or more."""

STORED: dict[str, np.dtype[Any]] = {
    **{
        name: np.dtype(name)
        for name in ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "float16")
    },
    "bfloat16": np.dtype(np.uint16),
}
"""Kinds of elements, and how NumPy keeps them: bfloat16 as the upper half of a float32's bits."""

_PAIRWISE: dict[int, Callable[[AnyArray, AnyArray], AnyArray]] = {
    SUM: np.add,
    MEAN: np.add,
    PRODUCT: np.multiply,
    MIN: lambda first, second: np.where(second < first, second, first),
    MAX: lambda first, second: np.where(second > first, second, first),
    AND: np.bitwise_and,
    OR: np.bitwise_or,
    XOR: np.bitwise_xor,
}


def combine(out: AnyArray, rows: Sequence[AnyArray], kind: str, operation: int) -> None:
    """Write to ``out`` (n,) what ``operation`` makes of ``rows``, P vectors (n,), all of `kind`.

    ``out`` may be one of the rows.
    """
    total = _widened(rows[0], kind)
    for row in rows[1:]:
        total = _PAIRWISE[operation](total, _widened(row, kind))
    if operation == MEAN:
        total = total / total.dtype.type(len(rows))
    out[...] = _narrowed(total, kind)


def _widened(values: AnyArray, kind: str) -> AnyArray:
    if kind == "bfloat16":
        return widened(values)
    return values.astype(np.float32) if kind == "float16" else values.copy()


def _narrowed(values: AnyArray, kind: str) -> AnyArray:
    return rounded(values) if kind == "bfloat16" else values.astype(STORED[kind])
