"""Words that several processes read and write at once: ordered loads and stores, polite polling.

x86 keeps the order of plain loads and of plain stores; other processors do not, and no compiler
promises to look at memory twice. Acquire and release say what is needed on each of them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vectorized_ops.numba.compiler import kernel

Words = npt.NDArray[np.int64]

ABORTED = -1
"""What ``watch`` returns when the abort word is set."""

_ALIGNMENT = 8
_PAUSE_INSTRUCTIONS = {
    "x86_64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)]),
}

_declared_function: Any = cgutils.get_or_insert_function
_item_pointer: Any = cgutils.get_item_pointer
_sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _emit_load(_typing: Any, words: Any, index: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _word_pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, "acquire", _ALIGNMENT)

    return types.int64(words, index), generate


def _emit_store(_typing: Any, words: Any, index: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _word_pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "release", _ALIGNMENT)
        return context.get_dummy_value()

    return types.void(words, index, value), generate


def _emit_pause(_typing: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        if platform.machine() in _PAUSE_INSTRUCTIONS:
            name, operands = _PAUSE_INSTRUCTIONS[platform.machine()]
            kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
            builder.call(_declared_function(builder.module, kind, name), operands)
        return context.get_dummy_value()

    return types.void(), generate


def _word_pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return _item_pointer(context, builder, signature.args[0], array, [arguments[1]])


_load_acquire: Any = intrinsic(_emit_load)
_store_release: Any = intrinsic(_emit_store)
_pause: Any = intrinsic(_emit_pause)
"""Leaves the core to its other hardware threads for some cycles."""


@kernel
def publish(sequences: Words, rank: int, sequence: int) -> None:
    """Say that worker ``rank`` has reached ``sequence``, and everything that it wrote before."""
    _store_release(sequences, rank, sequence)


@kernel
def watch(sequences: Words, abort_word: Words, sequence: int, pauses: int, yields: int) -> int:
    """Look until all workers have reached ``sequence``, at most ``pauses`` + ``yields`` times.

    ``sequences`` has shape (P,) with any stride, ``abort_word`` (1,). Pauses after each of the
    first looks, gives the core away after each of the others. Returns P if all are there, ABORTED
    if the abort word is not 0, else the first rank missing.
    """
    workers = sequences.shape[0]
    rank = 0
    for look in range(pauses + yields):
        while _load_acquire(sequences, rank) >= sequence:
            rank += 1
            if rank == workers:
                return rank
        if _load_acquire(abort_word, 0) != 0:
            return ABORTED
        if look < pauses:
            _pause()
        else:
            _sched_yield()
    return rank
