"""What is captured of kernels, and made again by one call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling import replay
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.kernel_dispatcher import KernelDispatcher
from vectorized_ops.numba.compiling.recording import recording
from vectorized_ops.numba.compiling.replay import Captured, Program, Repetition, captured

Array = np.ndarray[Any, Any]


class Extents(NamedTuple):
    number: int
    factor: float


@parallel_kernel
def add_scaled(values: Any, factor: float, out: Any) -> None:
    for i in numba.prange(len(out)):
        out[i] += factor * values[i]


@kernel
def of_all_kinds(
    out: Any,
    extents: Any,
    arrays: Any,
    double: float,
    flag: bool,
    single: Any,
    small: Any,
    matrix: Any,
    large: Any,
) -> None:
    """Writes what it was given, so that none of it can be lost or change places."""
    out[0], out[1], out[2], out[3] = extents.number, extents.factor, double, single
    out[4], out[5] = 1.0 if flag else 2.0, small
    out[6], out[7] = arrays[0][1], arrays[1][0]
    out[8], out[9], out[10] = matrix[1, 2], matrix.shape[0], matrix.strides[0]
    out[11] = 1.0 if large == 2**64 - 3 else 2.0


@kernel
def many(out: Any, arrays: Any, last: float) -> None:
    for i in range(len(arrays)):
        out[i] = arrays[i][0] + last


@kernel
def total_of(values: Any) -> float:
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


@kernel
def twice(number: int) -> int:
    return 2 * number


def again(found: Captured | None) -> None:
    """Make captured calls once more."""
    assert found is not None
    Program([found]).between(0, len(found.calls))(None)


def calls_of(found: Captured | None) -> int:
    assert found is not None
    return len(found.calls)


def test_calls_are_made_as_they_are_captured_and_again_on_what_arrays_hold_then() -> None:
    values, out = np.arange(100.0), np.zeros(100)
    found = captured(partial(add_scaled, values, 0.5, out))
    assert_array_equal(out, 0.5 * values)
    values += 7
    before = out.copy()
    again(found)
    assert_array_equal(out, before + 0.5 * values)


def test_every_kind_of_argument_arrives_where_it_belongs() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    out = np.zeros(12)
    given = (
        out, Extents(-5, 0.125), (np.array([1.0, 11.0]), np.array([13], np.int64)), 2.5, True,
        np.float32(0.1), np.uint8(200), whole[::2, 1:], np.uint64(2**64 - 3),
    )  # fmt: skip
    found = captured(lambda: of_all_kinds(*given))
    expected = [-5, 0.125, 2.5, np.float32(0.1), 1, 200, 11, 13, 15, 2, 96, 1]
    assert out.tolist() == expected
    out.fill(-1)
    again(found)
    assert out.tolist() == expected


@pytest.mark.parametrize("number", [1, 6, 7, 16, 17, 44])
def test_calls_of_all_sizes_have_all_their_arguments(number: int) -> None:
    """Arrays take seven integers each; the sizes are those of `SIZES`."""
    out, arrays = np.zeros(number), tuple(np.full(1, 10.0 + i) for i in range(number))
    found = captured(partial(many, out, arrays, 0.5))
    out.fill(0)
    again(found)
    assert out.tolist() == [10.5 + i for i in range(number)]


def test_a_call_with_more_integers_than_any_size_is_not_captured() -> None:
    number = replay.SIZES[-1] // 7 + 1
    out, arrays = np.zeros(number), tuple(np.full(1, 10.0 + i) for i in range(number))
    assert captured(partial(many, out, arrays, 0.5)) is None
    assert out[-1] == 9.5 + number


def test_what_returns_a_number_is_captured_only_if_it_leaves_nothing_behind() -> None:
    """Python may need the number; of numbers alone it is the same every time."""
    values, out = np.arange(4.0), np.zeros(4)
    assert captured(partial(total_of, values)) is None
    both = captured(lambda: add_scaled(values, float(twice(2)), out))
    assert calls_of(both) == 1
    assert_array_equal(out, 4 * values)


@kernel
def doubled(arrays: Any, factor: float) -> float:
    for i in range(len(arrays[0])):
        arrays[0][i] *= factor
    return factor


def test_what_changes_arrays_of_a_tuple_and_returns_a_number_is_not_captured() -> None:
    values = np.ones(3)
    assert captured(lambda: doubled((values, values), 2.0)) is None
    assert_array_equal(values, 2)


def test_an_argument_by_name_is_passed_on_and_not_captured() -> None:
    values, out = np.ones(3), np.zeros(3)
    assert captured(lambda: add_scaled(values, out=out, factor=2.0)) is None
    assert_array_equal(out, 2)


def test_nothing_is_captured_outside_of_the_work_or_of_other_threads() -> None:
    values, out, other = np.ones(3), np.zeros(3), np.zeros(3)

    def work() -> None:
        add_scaled(values, 1.0, out)
        thread = threading.Thread(target=many, args=(other, (values,) * 3, 1.0))
        thread.start()
        thread.join()

    assert calls_of(captured(work)) == 1
    assert_array_equal(other, 2)
    assert "__call__" not in vars(KernelDispatcher)
    with pytest.raises(ZeroDivisionError):
        captured(lambda: 1 // 0)
    assert "__call__" not in vars(KernelDispatcher)
    assert not replay._captures


def test_two_threads_capture_at_once_each_its_own() -> None:
    both_inside, found = threading.Barrier(2), {}

    def capture(number: int) -> None:
        out = np.zeros(number)

        def work() -> None:
            both_inside.wait(60)
            for _ in range(number):
                many(out, (np.ones(1),) * number, 0.0)
            both_inside.wait(60)

        found[number] = calls_of(captured(work))

    threads = [threading.Thread(target=capture, args=(number,)) for number in (1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {1: 1, 3: 3}


def test_arrays_of_a_program_stay_alive() -> None:
    out = np.zeros(1)

    def work() -> None:
        many(out, (np.full(1, 5.0),), 0.0)

    found = captured(work)
    more = [np.full(1, 9.0) for _ in range(100)]  # would take the memory that was let go
    out.fill(0)
    again(found)
    assert out == 5 and len(more) == 100


def counted(calls: list[str], name: str, work: Callable[[], object]) -> Callable[[object], None]:
    def part(known: object) -> None:
        calls.append(f"{name} {known}")
        work()

    return part


def test_parts_that_repeat_are_not_called_from_the_third_pass_on() -> None:
    values, out, told, changing = np.ones(2), np.zeros(2), list[str](), [0.0]

    def changes() -> None:
        changing[0] += 1
        add_scaled(values, changing[0], out)

    def adds() -> None:
        add_scaled(values, 1.0, out)

    works: dict[str, Callable[[], object]] = {
        "a": adds, "b": adds, "changes": changes, "c": adds, "refused": adds, "nothing": int,
    }  # fmt: skip
    parts = [counted(told, name, work) for name, work in works.items()]
    passes = Repetition(parts, [name != "refused" for name in works])
    for number in range(1, 5):
        told.clear()
        out.fill(0)
        passes.run(0, 3, number)
        passes.run(3, 6, number)
        assert_array_equal(out, 4 + number)
        names = list(works) if number < 3 else ["changes", "refused", "nothing"]
        assert told == [f"{name} {number}" for name in names]
    for first, last, total in ((0, 1, 1), (1, 2, 1), (0, 2, 2), (3, 3, 0), (5, 6, 0)):
        out.fill(0)
        passes.run(first, last, None)
        assert_array_equal(out, total)


def test_a_pass_that_broke_off_counts_as_none() -> None:
    values, out, told = np.ones(2), np.zeros(2), list[str]()
    work = partial(add_scaled, values, 1.0, out)
    passes = Repetition([counted(told, "one", work), counted(told, "two", work)], [True, True])
    for last in (2, 1, 2, 2):
        passes.run(0, last, None)
    assert len(told) == 7
    out.fill(0)
    passes.run(0, 2, None)
    assert_array_equal(out, 2)
    assert len(told) == 7


@pytest.mark.parametrize("reason", ["recorded", "another processor"])
def test_without_a_way_to_repeat_calls_every_pass_runs_part_by_part(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, told = np.zeros(2), list[str]()
    part = counted(told, "part", partial(add_scaled, np.ones(2), 1.0, out))
    add_scaled(np.ones(2), 0.0, out)  # what is loaded is called while others are recorded
    if reason == "recorded":
        monkeypatch.setattr(replay, "make_calls", kernel(replay.make_calls.py_func))
        with recording() as recorder:
            passes = Repetition([part], [True])
            for _ in range(4):
                passes.run(0, 1, None)
        assert [wanted.told[0] for wanted in recorder.wanted] == ["make_calls"]
    else:
        monkeypatch.setattr("platform.machine", lambda: "aarch64")
        passes = Repetition([part], [True])
        for _ in range(4):
            passes.run(0, 1, None)
    assert len(told) == 4
    assert_array_equal(out, 4)
