"""Atomics on words that several processes share: acquire loads, release stores, locks, polling.

Acquire and release state the order for processors other than x86, and for the compiler.
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

from vectorized_ops.numba.compiling.compiler import kernel

Words = npt.NDArray[np.int64]

PATIENT_LOOKS = 600
"""Polls of a lock that another process holds before the caller sleeps: some 70 microseconds."""

_PAUSED_LOOKS = 300
"""The first of them, with a pause instruction after each; after each of the others a yield."""

ABORTED = -1
"""The result of `watch` when the abort word is set."""

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


def _emit_exchange(
    _typing: Any, words: Any, index: Any, _expected: Any, _value: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _word_pointer(context, builder, signature, arguments)
        found = builder.cmpxchg(pointer, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(found, 0)

    return types.int64(words, index, types.int64, types.int64), generate


def _emit_add(_typing: Any, words: Any, index: Any, _value: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _word_pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], "acq_rel")

    return types.int64(words, index, types.int64), generate


def _emit_fence(_typing: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


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
_compare_exchange: Any = intrinsic(_emit_exchange)
_fetch_add: Any = intrinsic(_emit_add)
_fence: Any = intrinsic(_emit_fence)
_pause: Any = intrinsic(_emit_pause)
"""The pause instruction: gives the core to its other hardware threads for some cycles."""


@kernel
def publish(sequences: Words, rank: int, sequence: int) -> None:
    """Publish that worker ``rank`` has reached ``sequence``, and all that it wrote before."""
    _store_release(sequences, rank, sequence)


@kernel
def publish_and_read(words: Words, rank: int, value: int, found: Words) -> None:
    """Write the word of worker ``rank``, then copy the words of all into ``found`` (P,).

    Of two workers that do so at the same time, at least one finds what the other wrote.
    """
    _store_release(words, rank, value)
    _fence()
    for other in range(words.shape[0]):
        found[other] = _load_acquire(words, other)


@kernel
def watch(sequences: Words, abort_word: Words, sequence: int, pauses: int, yields: int) -> int:
    """Poll until all workers have reached ``sequence``, at most ``pauses`` + ``yields`` times.

    ``sequences`` has shape (P,) with any stride, ``abort_word`` (1,). Pauses after each of the
    first polls, yields the core after each of the others. Returns P if all are there, ABORTED if
    the abort word is not 0, else the first missing rank.
    """
    workers, rank = sequences.shape[0], 0
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


@kernel
def read(words: Words, index: int) -> int:
    """Load a word with acquire order: what its writer wrote before is visible afterwards."""
    value: int = _load_acquire(words, index)
    return value


@kernel
def add(words: Words, index: int, value: int) -> int:
    """Add to a word atomically (fetch-and-add); return its old value."""
    before: int = _fetch_add(words, index, value)
    return before


@kernel
def take(locks: Words, index: int, holder: int, looks: int) -> int:
    """Acquire a lock (its word is 0 when free) for ``holder``, with at most ``looks`` polls.

    Returns 0 if it was acquired, else its holder. The first polls pause, the others yield the core.
    """
    found = 0
    for look in range(looks):
        found = _load_acquire(locks, index)
        if found == 0:
            found = _compare_exchange(locks, index, 0, holder)
            if found == 0:
                return 0
        if look < _PAUSED_LOOKS:
            _pause()
        else:
            _sched_yield()
    return found


@kernel
def take_over(locks: Words, index: int, ended: int, holder: int) -> int:
    """Take a lock over for ``holder`` from the process ``ended``, which died while it held it.

    Returns ``ended`` if it was taken over, else its holder by now.
    """
    found: int = _compare_exchange(locks, index, ended, holder)
    return found


@kernel
def give_back(locks: Words, index: int) -> None:
    """Release a lock, and publish everything that was written under it."""
    _store_release(locks, index, 0)
