from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from vectorized_ops.numba.compiling.compiler import SETTINGS, kernel, parallel_kernel
from vectorized_ops.numba.compiling.fingerprint import fingerprint
from vectorized_ops.numba.compiling.parallel_loops import with_parallel_loops

ROOT = Path(__file__).parents[4]


@kernel
def scaled(value: float, factor: float) -> float:
    return value * factor


@parallel_kernel
def in_two_loops(values: Any, out: Any, factor: float) -> float:
    """What is between and after the loops is done once."""
    count = len(values)
    for i in numba.prange(count):
        out[i] = scaled(values[i], factor)
    offset = out[0] + 1.0
    for index in numba.prange(1, count):
        found = out[index] + offset
        out[index] = found
    total = 0.0
    for place in range(count):
        total += out[place]
    return total


@pytest.mark.parametrize("threads", range(1, min(4, SETTINGS.NUMBA_NUM_THREADS) + 1))
@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_loops_see_what_is_before_them(threads: int, count: int) -> None:
    numba.set_num_threads(threads)
    values, out = np.arange(1.0, count + 1), np.zeros(count)
    total = in_two_loops(values, out, 3.0)
    expected = 3.0 * values
    expected[1:] += 4.0
    np.testing.assert_array_equal(out, expected)
    assert total == expected.sum()


def test_a_loop_over_nothing_does_nothing() -> None:
    @parallel_kernel
    def fill(out: Any, first: int, last: int) -> None:
        for i in numba.prange(first, last):
            out[i] = 1.0

    out = np.zeros(3)
    fill(out, 2, 2)
    fill(out, 2, -1)
    assert not out.any()
    fill(out, 1, 2)
    assert out.tolist() == [0.0, 1.0, 0.0]


def test_bounds_may_be_of_any_integer_type() -> None:
    @parallel_kernel
    def fill(out: Any, last: Any) -> None:
        for i in numba.prange(last):
            out[i] = i

    for kind in (np.int8, np.uint8, np.int32, np.uint32, np.int64):
        out = np.zeros(4)
        fill(out, kind(3))
        assert out.tolist() == [0.0, 1.0, 2.0, 0.0]


def test_as_many_threads_take_part_as_numba_was_allowed() -> None:
    @parallel_kernel
    def note(ids: Any) -> None:
        for i in numba.prange(len(ids)):
            ids[i] = numba.get_thread_id()

    for threads in range(1, min(2, SETTINGS.NUMBA_NUM_THREADS) + 1):
        ids = np.full(threads, -1)
        numba.set_num_threads(threads)
        note(ids)
        assert sorted(ids) == list(range(threads))


@pytest.mark.slow
def test_python_goes_on_while_a_loop_runs() -> None:
    @parallel_kernel
    def work(sums: Any, rounds: int) -> None:
        for i in numba.prange(len(sums)):
            for k in range(rounds):
                sums[i] += np.sin(sums[i] + k)

    sums, counted = np.zeros(1), 0
    work(sums, 1)
    thread = threading.Thread(target=work, args=(sums, 30_000_000))
    thread.start()
    while thread.is_alive():
        counted += 1
    assert counted > 1000


def factory(number: int) -> Callable[..., None]:
    @parallel_kernel
    def fill(out: Any) -> None:
        for i in numba.prange(len(out)):
            out[i] = number

    return fill


def test_kernels_of_a_factory_have_loops_of_their_own() -> None:
    two, three = np.zeros(2), np.zeros(2)
    factory(2)(two)
    factory(3)(three)
    assert (two.tolist(), three.tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_without_numba_it_is_the_same_in_python() -> None:
    values, out = np.arange(1.0, 5), np.zeros(4)
    in_two_loops.py_func(values, out, 3.0)  # type: ignore[attr-defined]
    compiled = np.zeros(4)
    in_two_loops(values, compiled, 3.0)
    np.testing.assert_array_equal(out, compiled)


def test_how_loops_are_compiled_counts_in_the_names_of_kernels() -> None:
    def fill(out: Any) -> None:
        for i in numba.prange(len(out)):
            out[i] = 1

    assert fingerprint(parallel_kernel(fill)) != fingerprint(kernel(fill))


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from tests.vectorized_ops.numba.compiling.test_parallel_loops import factory
from vectorized_ops.numba.compiling.journal import JOURNAL
for number in map(int, sys.stdin.readline().split()):
    out = np.zeros(100)
    factory(number)(out)
    assert (out == number).all()
print(*(one.compiled for one in JOURNAL.made))
"""


@pytest.mark.slow
def test_what_another_process_compiled_is_loaded_beside_ones_own(tmp_path: Path) -> None:
    def run(*numbers: int) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(ROOT)],
            input=" ".join(map(str, numbers)),
            env={"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": "2"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run(2) == ["True"]
    assert run(3) == ["True"]
    assert run(3, 2) == ["False", "False"]


def changes_outside(values: Any) -> float:
    total = 0.0
    for i in numba.prange(len(values)):
        total += values[i]
    return total


def has_none(values: Any) -> None:
    values[0] = 1


def within_another(values: Any) -> None:
    for _ in range(2):
        for i in numba.prange(len(values)):
            values[i] = 1


def nested(values: Any) -> None:
    for i in numba.prange(2):
        for k in numba.prange(2):
            values[i, k] = 1


def over_pairs(values: Any) -> None:
    for i, k in numba.prange(len(values)):  # type: ignore[misc]
        values[i] = k


def in_steps(values: Any) -> None:
    for i in numba.prange(0, len(values), 2):
        values[i] = 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (changes_outside, "changes total, which the function has outside of it"),
        (has_none, "expected loops over numba.prange as statements of the function itself"),
        (within_another, "expected loops over numba.prange as statements of the function itself"),
        (nested, "expected loops over numba.prange as statements of the function itself"),
        (over_pairs, "expected `for name in numba.prange"),
        (in_steps, "expected `for name in numba.prange"),
    ],
)
def test_other_loops_are_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        with_parallel_loops(function)


def test_errors_of_a_loop_tell_its_lines() -> None:
    again = with_parallel_loops(in_two_loops.py_func)  # type: ignore[attr-defined]
    assert again.__code__.co_filename == __file__
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    numbers = {line for _, _, line in again.__code__.co_lines() if line is not None}
    (total,) = (i for i, line in enumerate(lines, 1) if line == "    total = 0.0" and i < 60)
    assert total in numbers
