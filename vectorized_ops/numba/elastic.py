"""Elastic and plain averaging between workers in one pass over memory, compiled by Numba.

Both operations are bound by memory: every cache line of every local and of the center is read once
and written once, (2P + 2) · 4 bytes per element for two to three flops each per local. They run in
the calling thread without the GIL; the caller gives each thread or process its own stripe of
columns. Every element is computed in the same order of operations wherever a stripe begins or ends,
so the result is the same to the last bit as that of ``vectorized_ops.reference``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from vectorized_ops.numba.compiler import kernel

_BLOCK = 1024
"""Elements handled at a time: center, sum and one local, 4 KiB each, stay in the L1 cache."""


def _emit_pointer(_typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    pointer: Any = types.CPointer

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return pointer(types.float32)(address), generate


_float32_pointer: Any = intrinsic(_emit_pointer)
"""Makes an address a pointer: Numba has no other way to say that strided rows are contiguous."""


@kernel
def _row(rows: npt.NDArray[np.float32], index: int) -> npt.NDArray[np.float32]:
    """View row ``index`` as a contiguous vector, which is what lets LLVM use vector loads."""
    address = rows.ctypes.data + index * rows.strides[0]
    return carray(_float32_pointer(address), rows.shape[1])


@kernel
def _check_shapes(locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32]) -> None:
    if locals_.strides[1] != 4:
        raise ValueError("locals_: each row must be contiguous")
    if locals_.shape[1] != center.shape[0]:
        raise ValueError("locals_ and center must have the same number of columns")


@kernel
def synchronous_elastic_update(
    locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32], moving_rate: float
) -> None:
    """Pull P locals and their center towards each other, all from the values before the call.

    As ``vectorized_ops.reference.elastic.synchronous_elastic_update``, to the same bits.
    ``locals_`` has shape (P, n), its rows contiguous, ``center`` (n,), both float32, no overlap.
    Raises ValueError for rows that are not contiguous or shapes that do not fit.
    """
    _check_shapes(locals_, center)
    rate = np.float32(moving_rate)
    total = np.empty(_BLOCK, np.float32)
    for begin in range(0, center.shape[0], _BLOCK):
        middle = center[begin : begin + _BLOCK]
        total[:] = 0
        for worker in range(locals_.shape[0]):
            local = _row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                pull = rate * (local[i] - middle[i])
                local[i] -= pull
                total[i] += pull
        for i in range(middle.shape[0]):
            middle[i] += total[i]


@kernel
def synchronous_average(locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32]) -> None:
    """Set the center and all P locals to the mean of the locals, added in rank order.

    As ``vectorized_ops.reference.elastic.synchronous_average``, to the same bits.
    ``locals_`` has shape (P, n), its rows contiguous, ``center`` (n,), both float32, no overlap.
    Raises ValueError for rows that are not contiguous or shapes that do not fit.
    """
    _check_shapes(locals_, center)
    workers = np.float32(locals_.shape[0])
    for begin in range(0, center.shape[0], _BLOCK):
        middle = center[begin : begin + _BLOCK]
        middle[:] = 0
        for worker in range(locals_.shape[0]):
            local = _row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                middle[i] += local[i]
        for i in range(middle.shape[0]):
            middle[i] /= workers
        for worker in range(locals_.shape[0]):
            local = _row(locals_, worker)[begin : begin + _BLOCK]
            for i in range(middle.shape[0]):
                local[i] = middle[i]
