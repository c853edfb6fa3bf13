"""The vector operations of a Soft Memory Box in one pass over memory, compiled by Numba.

Results are those of ``vectorized_ops.reference.vectors``, to the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import contiguous

Vector = npt.NDArray[np.float32]


@kernel
def accumulate(target: Vector, source: Vector) -> None:
    """Add ``source`` to ``target``; 3 memory accesses per element.

    As ``vectorized_ops.reference.vectors.accumulate``. Raises ValueError for shapes that do not
    fit.
    """
    if target.shape[0] != source.shape[0]:
        raise ValueError("target and source must have the same length")
    mine, other = contiguous(target), contiguous(source)
    for i in range(mine.shape[0]):
        mine[i] += other[i]


@kernel
def axpby(target: Vector, a: float, source: Vector, b: float) -> None:
    """Set ``target`` to a target + b source; 3 memory accesses per element.

    As ``vectorized_ops.reference.vectors.axpby``. Raises ValueError for shapes that do not fit.
    """
    if target.shape[0] != source.shape[0]:
        raise ValueError("target and source must have the same length")
    mine, other = contiguous(target), contiguous(source)
    kept, added = np.float32(a), np.float32(b)
    for i in range(mine.shape[0]):
        mine[i] = kept * mine[i] + added * other[i]


@kernel
def scale(target: Vector, a: float) -> None:
    """Multiply ``target`` by ``a``; 2 memory accesses per element.

    As ``vectorized_ops.reference.vectors.scale``.
    """
    mine, factor = contiguous(target), np.float32(a)
    for i in range(mine.shape[0]):
        mine[i] *= factor
