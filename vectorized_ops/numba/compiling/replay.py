"""Repeats calls of kernels without Python between them, as a CUDA graph does on a GPU.

A step of training calls the same kernels with the same arrays and numbers every time. Python takes
about 10 us for each: a seventh of a step of LeNet with 16 images on a Zen 4, and more where cores
are slow. So calls are captured as they are made, and later one function makes all of them.

A call is an address, and the arguments in the form of Numba's calling convention: integers,
pointers and floating point numbers. By that of x86-64 the first of each kind are in registers, the
other integers on the stack, from which the caller removes them. So a function may be called with
more of them than it takes, and one form of call serves all kernels.
"""

from __future__ import annotations

import platform
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby
from typing import Any, Final, NamedTuple, final

import numpy as np
from llvmlite import ir
from numba.core import cgutils as numba_cgutils
from numba.core import types as numba_types

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.kernel_dispatcher import Dispatcher, KernelDispatcher
from vectorized_ops.numba.compiling.recording import active_recorder
from vectorized_ops.numba.emit.lanes import tile
from vectorized_ops.numba.emit.raw_arrays import Emitter

cgutils: Any = numba_cgutils  # Numba has no types for these two.
types: Any = numba_types

SIZES: Final = (48, 128, 320)
"""Numbers of integers that are passed: a call passes the least that has room for its own."""

FLOATS: Final = 8
"""So many floating point numbers are passed: those in registers."""

_PLAIN: Final = types.Number, types.Boolean
_RESULT_BYTES: Final = 64
_INTEGER, _DOUBLE, _STATUS = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
_BYTES: Final = ir.IntType(8).as_pointer()


class KernelCall(NamedTuple):
    """The address of a kernel, and its arguments as registers and the stack have them."""

    address: int
    integers: tuple[int, ...]
    floats: tuple[int, ...]
    """The bits of registers: of a double, or of a float32 and zeros."""


@dataclass(frozen=True, slots=True)
class Captured:
    """Calls in order; they hold while the arrays among their arguments are alive."""

    calls: tuple[KernelCall, ...]
    arrays: tuple[AnyArray, ...] = field(compare=False)


def captured(work: Callable[[], object]) -> Captured | None:
    """Do some work, and return the calls of kernels that it makes in this thread.

    None if one of them cannot be repeated: it is given something else than numbers, arrays and
    tuples of them, or by name, or it returns a number. Where all that it is given are numbers, that
    changes nothing, and the call is left out.
    """
    capture = _Capture()
    dispatcher: Any = KernelDispatcher
    with _LOCK:
        _captures[threading.get_ident()] = capture
        dispatcher.__call__ = _noted  # Numba's own, which is quicker, is seen again without it.
    try:
        work()
    finally:
        with _LOCK:
            del _captures[threading.get_ident()]
            if not _captures:
                del dispatcher.__call__
    return None if capture.failed else Captured(tuple(capture.calls), tuple(capture.arrays))


def _noted(dispatcher: Any, *arguments: Any, **named: Any) -> Any:
    """The call of a dispatcher while any thread captures."""
    result = Dispatcher.__call__(dispatcher, *arguments, **named)
    capture = _captures.get(threading.get_ident())
    if capture is not None and named:
        capture.failed = True
    elif capture is not None:
        capture.note(dispatcher, arguments, result)
    return result


class _UncapturableError(Exception):
    """A call cannot be made again."""


@final
class _Capture:
    """The calls of a thread; `failed` if one of them cannot be repeated."""

    def __init__(self) -> None:
        self.calls: list[KernelCall] = []
        self.arrays: list[AnyArray] = []
        self.failed = False

    def note(self, dispatcher: Any, arguments: tuple[Any, ...], result: object) -> None:
        """Add a call that has just been made."""
        kinds = tuple(map(dispatcher.typeof_pyval, arguments))
        if result is not None and all(isinstance(kind, _PLAIN) for kind in kinds):
            return
        try:
            self._add(dispatcher.overloads.get(kinds), kinds, arguments, result)
        except _UncapturableError:
            self.failed = True

    def _add(
        self, compiled: Any, kinds: tuple[Any, ...], arguments: tuple[Any, ...], result: object
    ) -> None:
        passed = _Passed()
        for kind, value in zip(kinds, arguments, strict=True):
            passed.add(kind, value)
        fits = len(passed.integers) <= SIZES[-1] and len(passed.floats) <= FLOATS
        if compiled is None or result is not None or not fits:
            raise _UncapturableError
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        self.calls.append(KernelCall(address, tuple(passed.integers), tuple(passed.floats)))
        self.arrays += passed.arrays


_LOCK: Final = threading.Lock()
_captures: Final[dict[int, _Capture]] = {}
"""By the thread whose calls are captured."""


@final
class _Passed:
    """What values are passed as, by Numba's data models."""

    def __init__(self) -> None:
        self.integers: list[int] = []
        self.floats: list[int] = []
        self.arrays: list[AnyArray] = []

    def add(self, kind: Any, value: Any) -> None:
        """Add a value of one of Numba's types."""
        if isinstance(kind, types.Array):
            self.arrays.append(value)
            self.integers += (0, 0, value.size, value.itemsize, value.ctypes.data)
            self.integers += (*value.shape, *value.strides)
        elif isinstance(kind, types.BaseTuple):
            for inner, one in zip(kind, value, strict=True):
                self.add(inner, one)
        elif isinstance(kind, (types.Integer, types.Boolean)):
            number = int(value)
            self.integers.append(number - 2**64 if number >= 2**63 else number)
        elif kind == types.float64:
            self.floats += struct.unpack("q", struct.pack("d", value))
        elif kind == types.float32:  # the lower half of a register
            self.floats += struct.unpack("q", struct.pack("fI", value, 0))
        else:
            raise _UncapturableError


@final
class Program:
    """Calls that one function makes, in the threads that Numba is allowed; the GIL is free."""

    def __init__(self, pieces: Sequence[Captured]) -> None:
        self._alive = [piece.arrays for piece in pieces]
        calls = [call for piece in pieces for call in piece.calls]
        starts = [0, *accumulate(len(call.integers) for call in calls)]
        self._calls = np.zeros((len(calls), 3), np.int64)
        self._integers = np.zeros(starts[-1] + SIZES[-1], np.int64)
        self._floats = np.zeros((len(calls), FLOATS), np.int64)
        for number, (call, start) in enumerate(zip(calls, starts, strict=False)):
            size = next(i for i, size in enumerate(SIZES) if len(call.integers) <= size)
            self._calls[number] = call.address, start, size
            self._integers[start : start + len(call.integers)] = call.integers
            self._floats[number, : len(call.floats)] = call.floats

    def between(self, first: int, last: int) -> Callable[[object], None]:
        """Return what makes the calls from `first` to before `last`, whatever it is given."""
        given = self._calls, self._integers, self._floats, first, last
        return lambda _: make_calls(*given)


@final
class Repetition:
    """Passes through `parts` in order, all with the same arrays.

    The first two run part by part. From then on neighbours that made the same calls in both are one
    call of a program. Nothing is captured on processors other than x86-64, nor while kernels are
    recorded.

    Each part is given what a pass is `given`. One that `repeats` does nothing but call kernels.
    That its calls are the same is checked; whatever else it does is lost from the third pass on.
    """

    def __init__(self, parts: Sequence[Callable[[Any], object]], repeats: Sequence[bool]) -> None:
        self._parts, self._repeats = parts, repeats
        self._before: list[Captured | None] = []
        self._now: list[Captured | None] = []
        self._program: Program | None = None
        self._ends: list[int] = []
        self._spans: dict[tuple[int, int], list[Callable[[Any], object]]] = {}
        Program([]).between(0, 0)(None)  # loads the function, or has it recorded

    def run(self, first: int, last: int, given: object) -> None:
        """Run the parts from number `first` to before `last`."""
        if self._program is None:
            self._watch(first, last, given)
            return
        if (first, last) not in self._spans:
            self._spans[first, last] = list(self._spans_of(self._program, first, last))
        for span in self._spans[first, last]:
            span(given)

    def _watch(self, first: int, last: int, given: object) -> None:
        captures = platform.machine() == "x86_64" and active_recorder() is None
        if first == 0:
            self._before, self._now = self._now, []
        for number in range(first, last):
            work = partial(self._parts[number], given)
            if captures and self._repeats[number]:
                self._now.append(captured(work))
            else:
                work()
                self._now.append(None)
        if captures and len(self._before) == len(self._now) == len(self._parts):
            self._make()

    def _make(self) -> None:
        """Make the program of the parts that were alike in two passes."""
        pairs = zip(self._before, self._now, strict=True)
        alike = [now if now is not None and now == before else None for before, now in pairs]
        self._program = Program([each for each in alike if each is not None])
        self._ends = [0, *accumulate(0 if each is None else len(each.calls) for each in alike)]
        self._before = self._now = []

    def _spans_of(
        self, program: Program, first: int, last: int
    ) -> Iterator[Callable[[Any], object]]:
        """What runs the parts from `first` to before `last`: a program, or a part by itself."""

        def has_calls(number: int) -> bool:
            return self._ends[number] < self._ends[number + 1]

        for repeated, numbers in groupby(range(first, last), has_calls):
            these = list(numbers)
            if repeated:
                yield program.between(self._ends[these[0]], self._ends[these[-1] + 1])
            else:
                yield from (self._parts[number] for number in these)


@tile
def _call(_typing: Any, address: Any, integers: Any, floats: Any, size: Any) -> Emitter:
    """Call the function at an address with what is at two others, as many integers as SIZES has.

    Kernels raise nothing, so what it says of that is not read.
    """

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        target, passed, numbers, which = values
        result = cgutils.alloca_once(builder, _BYTES, size=_INTEGER(_RESULT_BYTES // 8))
        error = cgutils.alloca_once(builder, _BYTES)
        places = [builder.bitcast(place, _BYTES) for place in (result, error)]
        doubles = _loaded(builder, numbers, _DOUBLE, FLOATS)
        behind = builder.append_basic_block()
        switch = builder.switch(which, behind)
        for number, count in enumerate(SIZES):
            block = builder.append_basic_block()
            switch.add_case(_INTEGER(number), block)
            builder.position_at_end(block)
            given = [*places, *_loaded(builder, passed, _INTEGER, count), *doubles]
            form = ir.FunctionType(_STATUS, [value.type for value in given])
            builder.call(builder.inttoptr(target, form.as_pointer()), given)
            builder.branch(behind)
        builder.position_at_end(behind)
        return context.get_dummy_value()

    return types.void(address, integers, floats, size), generate


def _loaded(builder: Any, address: Any, kind: Any, count: int) -> list[Any]:
    pointer = builder.inttoptr(address, kind.as_pointer())
    return [builder.load(builder.gep(pointer, [_INTEGER(i)])) for i in range(count)]


@kernel
def make_calls(calls: Any, integers: Any, floats: Any, first: int, last: int) -> None:
    """Call rows of `calls`: an address, the place of the first integer, and the number of a size.

    Each has a row of `floats` (n, FLOATS).
    """
    for i in range(first, last):
        _call(
            calls[i, 0], integers.ctypes.data + 8 * calls[i, 1],
            floats.ctypes.data + 8 * FLOATS * i, calls[i, 2],
        )  # fmt: skip
