from __future__ import annotations

import functools
import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba.extending import intrinsic

import vectorized_ops
from vectorized_ops.numba.fingerprint import fingerprint

Function = Callable[..., Any]
ROOT = Path(vectorized_ops.__file__).parents[1]

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


def test_functions_that_call_themselves_have_a_fingerprint() -> None:
    def make(base: int) -> Function:
        @numba.njit
        def factorial(n: int) -> int:
            return n * factorial(n - 1) if n > 1 else base

        return factorial.py_func

    assert fingerprint(make(1)) == fingerprint(make(1))
    assert fingerprint(make(1)) != fingerprint(make(2))


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
    code = (
        "from vectorized_ops.numba._correlation import correlation_kernel as make\n"
        "from vectorized_ops.numba.fingerprint import fingerprint\n"
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
