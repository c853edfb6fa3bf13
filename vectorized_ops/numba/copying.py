"""Copies of flat arrays, from float32 to bfloat16 and back."""

from __future__ import annotations

from typing import Any

import numba

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.depthwise_tiles import copied_tile


def copy(values: AnyArray, out: AnyArray) -> None:
    """Write flat values, whole vectors of them, to an array of as many or more.

    Raises OperationError for a shorter one.
    """
    if len(out) < len(values):
        raise OperationError(
            f"{len(values)} values were to be copied to an array of {len(out)}: expected room for "
            "all of them"
        )
    _copy(values, out, numba.get_num_threads())


@parallel_kernel
def _copy(values: Any, out: Any, threads: int) -> None:
    vectors = len(values) // LANES
    for thread in numba.prange(threads):
        first, last = part(vectors, thread, threads), part(vectors, thread + 1, threads)
        copied_tile(out, first * LANES, values, first * LANES, 0, last - first)
