from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba.extending import intrinsic

import vectorized_ops
from vectorized_ops.numba.compiling.fingerprint import _joined, compiled_code, fingerprint

Function = Callable[..., Any]
ROOT = Path(vectorized_ops.__file__).parents[2]

factor = 2
table = np.arange(3)


@dataclass(frozen=True)
class Point:
    value: Any


def scaled(x: float) -> float:
    return x * factor


def product(value: Any) -> Function:
    def multiply(x: float) -> float:
        return x * value

    return multiply


def calling(kernel: Any) -> Function:
    def call(x: float) -> float:
        return kernel(x)

    return call


def emitting(number: int) -> Any:
    @intrinsic
    def constant(_typing: Any) -> Any:
        def generate(context: Any, *_: Any) -> Any:
            return context.get_constant(numba.types.int64, number)

        return numba.types.int64(), generate

    return constant


def test_the_same_function_has_the_same_fingerprint() -> None:
    assert fingerprint(product(3)) == fingerprint(product(3))
    assert len(fingerprint(scaled)) == 64


def test_code_tells_functions_apart() -> None:
    def make(second: bool) -> Function:
        if second:

            def function(x: float) -> float:
                return x * 3

        else:

            def function(x: float) -> float:
                return x * 2

        return function

    assert fingerprint(make(False)) != fingerprint(make(True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2, 3),
        (2, 2.0),
        (True, 1),
        (0.0, -0.0),
        ((1, 2), (2, 1)),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"a": 2}),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (np.arange(4), np.arange(4.0)),
        (np.arange(4), np.array([0, 1, 2, 4])),
        (np.float32(1), np.float64(1)),
        (numba.types.int32, numba.types.int64),
        (np, numba),
        (ir.IntType(32), ir.IntType(64)),
        (ir.IntType(32)(1), ir.IntType(32)(2)),
        (max, min),
        (Fraction(1, 2), Fraction(1, 3)),
        (Point(1), Point(2)),
        (Point(scaled), Point(product)),
        (functools.cache(scaled), functools.cache(product)),
    ],
)
def test_the_closure_tells_functions_apart(one: Any, other: Any) -> None:
    assert fingerprint(product(one)) != fingerprint(product(other))


def test_what_others_do_with_a_type_of_llvm_does_not_count() -> None:
    """It keeps its own text from the moment when it is first written into a kernel."""
    fresh, used = (ir.IntType(200) for _ in range(2))
    assert str(used) == "i200"
    assert vars(fresh) != vars(used)
    assert fingerprint(product(fresh)) == fingerprint(product(used))


def test_what_may_differ_from_process_to_process_is_refused() -> None:
    with pytest.raises(TypeError, match=r"refers to count\(0\), a count: expected a number, text"):
        fingerprint(product(itertools.count()))


def test_globals_tell_functions_apart_but_only_those_that_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = fingerprint(scaled)
    monkeypatch.setitem(globals(), "table", np.arange(4))
    assert fingerprint(scaled) == before
    monkeypatch.setitem(globals(), "factor", 3)
    assert fingerprint(scaled) != before


def test_what_is_called_tells_functions_apart() -> None:
    def through(value: int, **options: bool) -> str:
        return fingerprint(calling(numba.njit(calling(numba.njit(**options)(product(value))))))

    assert through(2) == through(2)
    assert through(2) != through(3)
    assert through(2, nogil=True) != through(2)
    assert fingerprint(calling(emitting(1))) == fingerprint(calling(emitting(1)))
    assert fingerprint(calling(emitting(1))) != fingerprint(calling(emitting(2)))
    assert fingerprint(calling(product(1))) != fingerprint(calling(product(2)))


EMITTER = """
class Base:
    scale = 2

    def inherited(self):
        return self.scale

class Emitter(Base):
    unused = 4

    def __init__(self, value):
        self.value = 1 * value

    def method(self):
        return self.inner() + self.inherited()

    def inner(self):
        return 3 * self.value

    @property
    def size(self):
        return self._size(self.value)

    @staticmethod
    def _size(value):
        return 5 + value

    def forgotten(self):
        return 6 * self.value

def emit(value):
    emitter = Emitter(value)
    return emitter.method() + emitter.size
"""


def with_other(number: int) -> str:
    """The fingerprint of `emit`, one number of whose source is another."""
    module: dict[str, Any] = {"__name__": "tests.emitter"}
    exec(EMITTER.replace(str(number), "7"), module)
    return fingerprint(module["emit"])


def test_of_a_class_counts_what_is_used() -> None:
    plain = with_other(0)
    assert plain == with_other(0)
    assert plain == with_other(4) == with_other(6)
    assert len({plain, *map(with_other, (1, 2, 3, 5))}) == 5


def test_objects_lead_to_their_class() -> None:
    def of(number: int) -> str:
        @dataclass(frozen=True)
        class Counter:
            value: int

            if number == 2:

                def next(self) -> int:
                    return self.value + 2

            else:

                def next(self) -> int:
                    return self.value + 1

        counter = Counter(1)
        return fingerprint(lambda: counter.next())

    assert of(1) == of(1) != of(2)


def test_the_fields_of_a_named_tuple_count() -> None:
    def of(*fields: str) -> str:
        Pair = namedtuple("Pair", fields)  # type: ignore[misc]
        pair = Pair(1, 2)
        return fingerprint(lambda: pair.left)

    assert of("left", "right") == of("left", "right") != of("right", "left")


def test_of_a_module_counts_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def emit() -> int:
        return emitters.double(2)

    emitters = ModuleType("tests.emitters")
    emitters.double = lambda value: 2 * value  # type: ignore[attr-defined]
    emitters.unused = 1  # type: ignore[attr-defined]
    before = fingerprint(emit)
    monkeypatch.setattr(emitters, "unused", 2)
    assert fingerprint(emit) == before
    monkeypatch.setattr(emitters, "double", scaled)
    assert fingerprint(emit) != before


def test_keyword_defaults_count_and_docstrings_do_not() -> None:
    def of(value: int, text: str | None) -> str:
        def emit(*, count: int = value) -> int:
            return count

        emit.__doc__ = text
        if text is not None:
            consts = (text, *emit.__code__.co_consts[1:])
            emit.__code__ = emit.__code__.replace(co_consts=consts)
        return fingerprint(emit)

    assert of(1, None) == of(1, "one") == of(1, "two") != of(2, None)


FOLLOWED = """
import cProfile
import sys
from pathlib import Path
from vectorized_ops.numba.compiling.cache import KernelCache
from vectorized_ops.numba.compiling.fingerprint import Walk

PACKAGE = str(Path(sys.modules["vectorized_ops"].__file__).parent)
MACHINERY = tuple(
    f"{PACKAGE}/numba/compiling/{name}.py"
    for name in (
        "cache", "cache_folder", "compiler", "fingerprint", "journal", "kernel_dispatcher",
        "shortcuts",
    )
)
guarded, compiled, forgotten = KernelCache.guarded, [], set()

def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)

def watched(cache, compile_kernel):
    compile_or_let_go = guarded(cache, compile_kernel)

    def run(*arguments):
        if sys.getprofile() is not None:  # another kernel calls this one
            return compile_or_let_go(*arguments)
        profile = cProfile.Profile()
        profile.enable()
        try:
            return compile_or_let_go(*arguments)
        finally:
            profile.disable()
            walk = Walk(cache._function)
            walk.whole()
            followed = {code for one in walk.followed for code in codes(one.__code__)}
            ran = {entry.code for entry in profile.getstats() if hasattr(entry.code, "co_code")}
            ours = {
                code for code in ran
                if code.co_filename.startswith(PACKAGE) and code.co_filename not in MACHINERY
            }
            compiled.append(len(ours))
            forgotten.update(code.co_qualname for code in ours - followed)

    return run

KernelCache.guarded = watched
import numpy as np
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.loss import softmax_cross_entropy

scores, gradient = activations((16, 10)), activations((16, 10))
softmax_cross_entropy(scores, np.zeros(16, np.int64), gradient)
print(sum(compiled), sorted(forgotten))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no full names before 3.11")
def test_all_that_runs_while_a_kernel_is_compiled_counts(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWED], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    count, _, names = done.stdout.strip().partition(" ")
    assert int(count) > 20
    assert names == "[]"


def test_texts_side_by_side_are_not_taken_for_others() -> None:
    texts = (["a", "b"], ["ab"], ["a1:b"], ["a", "b", ""], ["", "ab"], ["1:a1:b"])
    assert len({_joined(each) for each in texts}) == len(texts)


def test_a_text_of_the_code_that_is_no_docstring_counts() -> None:
    """The first constant of the same code is a docstring of one function, not of the other."""
    plain = FunctionType(_documented.__code__, _documented.__globals__)
    plain.__doc__ = None
    assert fingerprint(_documented) != fingerprint(plain)


def _documented() -> int:
    """A text."""
    return 1


def test_functions_that_call_themselves_have_a_fingerprint() -> None:
    def make(base: int) -> Function:
        @numba.njit
        def factorial(n: int) -> int:
            return n * factorial(n - 1) if n > 1 else base

        return factorial.py_func

    assert fingerprint(make(1)) == fingerprint(make(1))
    assert fingerprint(make(1)) != fingerprint(make(2))


def test_sources_are_those_of_all_that_counts_methods_too() -> None:
    from vectorized_ops.numba.emit.gradient_store import Delivery

    def delivers(x: float) -> float:
        return Delivery.write(x)  # type: ignore[call-arg, arg-type]

    assert compiled_code(scaled).sources == {__file__}
    found = compiled_code(delivers).sources
    assert {Path(file).name for file in found} >= {"test_fingerprint.py", "gradient_store.py"}
    assert all(Path(file).is_file() for file in found)


def test_what_is_not_filled_in_yet_does_not_count() -> None:
    def make() -> tuple[str, str]:
        def early(x: int) -> int:
            return late(x)  # noqa: F821 (that is the point)

        before = fingerprint(early)
        late = scaled
        after = fingerprint(early)
        del late
        return before, after

    before, after = make()
    assert before != after


def test_fingerprints_are_the_same_in_every_process() -> None:
    module = "vectorized_ops.numba.kernels.pooled_convolution.winograd_kernels"
    code = (
        f"from {module} import forward_kernel as make\n"
        "from vectorized_ops.numba.compiling.fingerprint import fingerprint\n"
        "print(fingerprint(make(3).py_func), fingerprint(make(4).py_func))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(set(found.pop().split())) == 2
