"""Compiled loops that poll MPI without the GIL, with sleeps in between.

A thread that returned to Python after each call would wait there for the GIL, for five milliseconds
whenever another thread computes in Python. The loops call MPI's functions by the addresses that
mpi4py knows. A handle is an int or a pointer, depending on the library. It is passed as 64 bits;
the callee takes the bits that it needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from knltrain.communication.shared_memory.atomics import Words, read
from vectorized_ops.numba.compiling.compiler import kernel

STATUS_BYTES = 512
"""More than the size of MPI_Status in any library."""

FAILED = -1
"""The result of the kernels if MPI has returned an error; its code is in `results[2]`."""

_WORD: Any = types.int64
_CLOCK_MONOTONIC = 1
_YIELD_NANOSECONDS = 20_000_000
"""How long a wait for a transfer yields the core between two polls, before it sleeps. 28 MB take as
long over 10 Gbit/s, and sockets must be drained meanwhile."""
_NAP_MICROSECONDS = 50
_BUSY_NANOSECONDS = 5_000
"""A call that takes longer has moved data; one with nothing to do takes about one microsecond."""
_ATTENTIVE_NANOSECONDS = 300_000
"""No sleep for so long after such a call: the next piece is in transit."""

_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


def address_of(mpi: Any, function: str) -> int:
    """Return the address of a function of the MPI library that mpi4py has loaded."""
    found = ctypes.CDLL(mpi.__file__)[function]
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def _emit_call(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    """Call the function at the address of the first argument with the others; returns an int."""
    word = ir.IntType(64)
    kind = ir.FunctionType(ir.IntType(32), [word] * len(arguments[1:]))
    function = builder.inttoptr(arguments[0], kind.as_pointer())
    return builder.sext(builder.call(function, arguments[1:]), word)


def _emit_test(
    _typing: Any, _at: Any, _request: Any, _flag: Any, _status: Any
) -> tuple[Any, Callable[..., Any]]:
    return _WORD(*[_WORD] * 4), _emit_call


def _emit_iprobe(
    _typing: Any, _at: Any, _source: Any, _tag: Any, _group: Any, _flag: Any, _status: Any
) -> tuple[Any, Callable[..., Any]]:
    return _WORD(*[_WORD] * 6), _emit_call


_test: Any = intrinsic(_emit_test)
_iprobe: Any = intrinsic(_emit_iprobe)


@kernel
def _nanoseconds(now: Words) -> int:
    """Return the time of the monotonic clock; ``now`` (2,) is scratch."""
    _clock_gettime(_CLOCK_MONOTONIC, now.ctypes.data)
    nanoseconds: int = now[0] * 1_000_000_000 + now[1]
    return nanoseconds


@kernel
def finish_until(
    at: int, requests: Words, results: Words, waited_nanoseconds: int, limit_nanoseconds: int
) -> int:
    """Call MPI_Test, ``at`` this address, on requests whose handles are at ``requests``.

    Yields the core between two polls for the first 20 ms, of which ``waited_nanoseconds`` were
    before this call; sleeps between them afterwards. Finished requests are moved behind the others.
    Returns how many are left after ``limit_nanoseconds``, or FAILED. ``results``
    (3 + STATUS_BYTES / 8,) is scratch.
    """
    left: int = requests.shape[0]
    begin = _nanoseconds(results)
    while True:
        number = 0
        while number < left:
            results[0] = 0
            code = _test(at, requests[number], results.ctypes.data, results[3:].ctypes.data)
            if code != 0:
                results[2] = code
                return FAILED
            if results[0] & 0xFFFFFFFF:
                left -= 1
                requests[number], requests[left] = requests[left], requests[number]
            else:
                number += 1
        if left == 0:
            return 0
        taken = _nanoseconds(results) - begin
        if taken >= limit_nanoseconds:
            break
        if waited_nanoseconds + taken < _YIELD_NANOSECONDS:
            _sched_yield()
        else:
            _usleep(_NAP_MICROSECONDS)
    return left


@kernel
def progress_until(
    at: int, group: int, source: int, tag: int, longest_nap: int, stop: Words, results: Words
) -> int:
    """Call MPI_Iprobe, ``at`` this address, until ``stop`` (1,) is not 0.

    So MPI progresses the one-sided operations of others. Yields the core between calls as long as
    they move data, then sleeps with exponential backoff, up to ``longest_nap`` microseconds.
    Returns 0, or FAILED. ``results`` (3 + STATUS_BYTES / 8,) is scratch.
    """
    nap = 1
    quiet_since = _nanoseconds(results)
    while read(stop, 0) == 0:
        before = _nanoseconds(results)
        code = _iprobe(at, source, tag, group, results.ctypes.data, results[3:].ctypes.data)
        if code != 0:
            results[2] = code
            return FAILED
        now = _nanoseconds(results)
        if now - before > _BUSY_NANOSECONDS:
            quiet_since, nap = now, 1
        if now - quiet_since < _ATTENTIVE_NANOSECONDS:
            _sched_yield()
        else:
            _usleep(nap)
            nap = min(2 * nap, longest_nap)
    return 0


def scratch() -> npt.NDArray[np.int64]:
    """Return the scratch array ``results`` of the kernels above."""
    return np.zeros(3 + STATUS_BYTES // 8, np.int64)
