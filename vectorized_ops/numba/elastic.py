"""Elastic and plain averaging between workers in one pass over memory, compiled by Numba.

All operations are bound by memory: every cache line of every local and of the center is read once
and written once, (2P + 2) · 4 bytes per element for two to three flops each per local. They run in
the calling thread without the GIL; the caller gives each thread or process its own stripe of
columns. Every element is computed in the same order of operations wherever a stripe begins or ends,
so the result is the same to the last bit as that of ``vectorized_ops.reference``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import contiguous, row, stack_vector

_BLOCK = 1024
"""Elements handled at a time: center, sum and one local, 4 KiB each, stay in the L1 cache."""


@kernel
def check_shapes(locals_: FloatArray, center: FloatArray) -> None:
    """Raise ValueError unless rows (P, n) are contiguous and the center has their columns."""
    if locals_.strides[1] != 4:
        raise ValueError("locals_: each row must be contiguous")
    if locals_.shape[1] != center.shape[0]:
        raise ValueError("locals_ and center must have the same number of columns")


@kernel
def synchronous_elastic_update(locals_: FloatArray, center: FloatArray, moving_rate: float) -> None:
    """Pull P locals and their center towards each other, all from the values before the call.

    As ``vectorized_ops.reference.elastic.synchronous_elastic_update``, to the same bits.
    ``locals_`` has shape (P, n), its rows contiguous, ``center`` (n,), both float32, no overlap.
    Raises ValueError for rows that are not contiguous or shapes that do not fit.
    """
    check_shapes(locals_, center)
    rate = np.float32(moving_rate)
    total = stack_vector(_BLOCK, np.float32)
    for begin in range(0, center.shape[0], _BLOCK):
        middle = center[begin : begin + _BLOCK]
        total[:] = 0
        for worker in range(locals_.shape[0]):
            local = row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                pull = rate * (local[i] - middle[i])
                local[i] -= pull
                total[i] += pull
        for i in range(middle.shape[0]):
            middle[i] += total[i]


def _one_for_all(mean: bool) -> Callable[[FloatArray, FloatArray], None]:
    """Return the kernel that sets center and locals to the sum of the locals, or to its mean."""

    @kernel
    def one_for_all(locals_: FloatArray, center: FloatArray) -> None:
        check_shapes(locals_, center)
        workers = np.float32(locals_.shape[0])
        for begin in range(0, center.shape[0], _BLOCK):
            middle = center[begin : begin + _BLOCK]
            middle[:] = 0
            for worker in range(locals_.shape[0]):
                local = row(locals_, worker)[begin : begin + _BLOCK]
                for i in range(middle.shape[0]):
                    middle[i] += local[i]
            if mean:
                for i in range(middle.shape[0]):
                    middle[i] /= workers
            for worker in range(locals_.shape[0]):
                local = row(locals_, worker)[begin : begin + _BLOCK]
                for i in range(middle.shape[0]):
                    local[i] = middle[i]

    return one_for_all


synchronous_average = _one_for_all(mean=True)
"""synchronous_average(locals_, center): set center and all P locals to the mean of the locals.

As ``vectorized_ops.reference.elastic.synchronous_average``, to the same bits: added in rank order.
``locals_`` has shape (P, n), its rows contiguous, ``center`` (n,), both float32, no overlap.
Raises ValueError for rows that are not contiguous or shapes that do not fit.
"""

synchronous_sum = _one_for_all(mean=False)
"""As `synchronous_average`, but the sum: ``vectorized_ops.reference.elastic.synchronous_sum``."""


@kernel
def synchronous_model_average(locals_: FloatArray, center: FloatArray) -> None:
    """Set center and all P locals to the mean of the locals, by differences from the first.

    As ``vectorized_ops.reference.elastic.synchronous_model_average``, to the same bits. Arguments
    and errors are those of `synchronous_average`.
    """
    check_shapes(locals_, center)
    workers = np.float32(locals_.shape[0])
    for begin in range(0, center.shape[0], _BLOCK):
        middle = center[begin : begin + _BLOCK]
        first = row(locals_, 0)[begin : begin + _BLOCK]
        middle[:] = 0
        for worker in range(1, locals_.shape[0]):
            local = row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                middle[i] += local[i] - first[i]
        for i in range(middle.shape[0]):
            middle[i] = first[i] + middle[i] / workers
        for worker in range(locals_.shape[0]):
            local = row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                local[i] = middle[i]


@kernel
def elastic_update(local: FloatArray, center: FloatArray, moving_rate: float) -> None:
    """Pull one local and the center towards each other: e = α (local − center) goes over.

    As ``vectorized_ops.reference.elastic.elastic_update``, to the same bits; 4 memory accesses per
    element. Both have shape (n,) and are contiguous, float32, without overlap. Raises ValueError
    for shapes that do not fit.
    """
    if local.shape[0] != center.shape[0]:
        raise ValueError("local and center must have the same length")
    rate = np.float32(moving_rate)
    mine, middle = contiguous(local), contiguous(center)
    for i in range(middle.shape[0]):
        pull = rate * (mine[i] - middle[i])
        mine[i] -= pull
        middle[i] += pull


@kernel
def elastic_increment(
    local: npt.NDArray[np.float32],
    center: npt.NDArray[np.float32],
    increment: npt.NDArray[np.float32],
    moving_rate: float,
) -> None:
    """Move one local towards the center by α (local − center), and write that to ``increment``.

    As ``vectorized_ops.reference.elastic.elastic_increment``, to the same bits; 4 memory accesses
    per element. All have shape (n,) and are contiguous, float32, without overlap. Raises ValueError
    for shapes that do not fit.
    """
    if not local.shape[0] == center.shape[0] == increment.shape[0]:
        raise ValueError("local, center and increment must have the same length")
    rate = np.float32(moving_rate)
    mine, middle, given = contiguous(local), contiguous(center), contiguous(increment)
    for i in range(middle.shape[0]):
        pull = rate * (mine[i] - middle[i])
        mine[i] -= pull
        given[i] = pull
