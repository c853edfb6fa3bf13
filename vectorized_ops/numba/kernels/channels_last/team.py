"""Kernels on channels_last memory (N, H, W, C) run in a team of threads that is not Numba's.

Who calls them computes with OpenMP threads of his own, such as PyTorch's. A second team on the same
cores would have to wait until the first has stopped spinning, so a kernel borrows the first: it
starts OpenMP's parallel region itself, by the functions that `use_team` was given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils

from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import Lanes, Value

_PARALLEL, _MEMBER, _SIZE = (
    f"vectorized_ops_team_{name}" for name in ("parallel", "member", "size")
)
_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_BYTE_POINTER, _INT32, _INT64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)

THREADS = 0
"""Where the arguments of every kernel say in how many shares the work is divided."""

Share = Callable[[Lanes, Value, Value, Value], None]
"""Emits the work of one share, from (lanes, address of the arguments, share, shares)."""


def use_team_of(file: str | None) -> None:
    """Run kernels in OpenMP's threads of what a library links; AttributeError if it has none.

    OSError if there is no such library. See `use_team`.
    """
    library = ctypes.CDLL(file)
    use_team(*(_address(getattr(library, name)) for name in _FUNCTIONS))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def use_team(parallel: int, member: int, size: int) -> None:
    """Name the addresses of GOMP_parallel, omp_get_thread_num and omp_get_num_threads.

    To be called before the first kernel is compiled, or loaded from the cache.
    """
    for name, address in zip((_PARALLEL, _MEMBER, _SIZE), (parallel, member, size), strict=True):
        llvmlite.binding.add_symbol(name, address)


def emit_in_team(context: Any, builder: Any, signature: Any, arguments: Value, work: Share) -> None:
    """Emit a function that does `work`, and its call by all members of a team.

    `arguments` points to 64-bit integers. A member does every share whose number is its own plus a
    multiple of the size of the team, so that none is left out if the team is small.
    """
    module = builder.module
    kind = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER])
    name = module.get_unique_name(f"{builder.function.name}.team")
    body = ir.Function(module, kind, name)
    body.linkage = "internal"
    inside = ir.IRBuilder(body.append_basic_block())
    lanes = Lanes(context, inside, signature)
    given = inside.bitcast(body.args[0], arguments.type)
    shares = inside.load(given)
    number, size = (
        inside.sext(inside.call(_external(module, name, _INT32, []), []), _INT64)
        for name in (_MEMBER, _SIZE)
    )
    rounds = inside.sdiv(inside.add(inside.sub(shares, number), inside.sub(size, _INT64(1))), size)
    repeat(
        lanes,
        rounds,
        lambda index: work(lanes, given, inside.add(number, inside.mul(index, size)), shares),
    )
    inside.fence("seq_cst")  # Stores past the caches are seen by other threads from here on.
    inside.ret_void()
    parallel = _external(
        module, _PARALLEL, ir.VoidType(), [kind.as_pointer(), _BYTE_POINTER, _INT32, _INT32]
    )
    threads = builder.trunc(builder.load(arguments), _INT32)
    builder.call(parallel, [body, builder.bitcast(arguments, _BYTE_POINTER), threads, _INT32(0)])


def argument(lanes: Lanes, arguments: Value, place: Value) -> Value:
    """Return the integer at `place` of the arguments."""
    return lanes.load_integer(lanes.at(arguments, place))


def address(lanes: Lanes, arguments: Value, place: Value, kind: Any = None) -> Value:
    """Return the address at `place` of the arguments, of floats unless another `kind` is given.

    Offsets are for `Lanes.at` to add: LLVM loses sight of what integer arithmetic makes of it.
    """
    pointer = (kind or ir.FloatType()).as_pointer()
    return lanes.builder.inttoptr(argument(lanes, arguments, place), pointer)


def flag(lanes: Lanes, arguments: Value, place: Value) -> Value:
    """Return whether the integer at `place` of the arguments is not 0."""
    return lanes.builder.icmp_signed("!=", argument(lanes, arguments, place), _INT64(0))


def number(lanes: Lanes, arguments: Value, place: Value) -> Value:
    """Return the double whose bits stand at `place` of the arguments, in all lanes of a vector."""
    double = lanes.builder.bitcast(argument(lanes, arguments, place), ir.DoubleType())
    return lanes.copies(lanes.builder.fptrunc(double, ir.FloatType()))


def part(lanes: Lanes, number: Value, share: Value, shares: Value) -> Value:
    """Return where a share of `number` pieces begins: it ends where the next one begins."""
    return lanes.builder.udiv(lanes.product(number, share), shares)


def _external(module: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(module, kind, name)  # type: ignore[no-untyped-call]
