"""Kernels that call others."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core import compiler, types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.journal import JOURNAL
from vectorized_ops.numba.compiling.kernel_dispatcher import _NOT_IN_KERNELS, KernelCompiler
from vectorized_ops.numba.compiling.recording import recording


@kernel
def _half(value: Any) -> Any:
    return value / 2


@kernel
def _quarter(value: Any) -> Any:
    return _half(_half(value))


@parallel_kernel
def quarters(values: Any, out: Any) -> None:
    for i in numba.prange(len(values)):
        out[i] = _quarter(values[i])


@kernel
def both(values: Any, number: int) -> float:
    return float(_quarter(values[0]) + _half(number))


def names(before: int) -> list[str]:
    return [one.name for one in JOURNAL.made[before:]]


def test_what_a_kernel_calls_is_part_of_it_and_no_kernel_by_itself() -> None:
    before, values, out = len(JOURNAL.made), np.arange(8.0), np.zeros(8)
    quarters(values, out)
    np.testing.assert_array_equal(out, values / 4)
    assert both(np.array([8.0]), 6) == 5.0
    assert names(before) == ["quarters", "both"]


def test_python_may_call_what_kernels_call() -> None:
    before = len(JOURNAL.made)
    assert _quarter(12.0) == 3.0
    assert _half(5) == 2.5
    assert set(names(before)) <= {"_quarter", "_half"}
    assert _quarter(np.float32(1.0)) == 0.25
    assert both(np.array([4.0]), 4) == 3.0


def test_what_does_not_compile_tells_where() -> None:
    @kernel
    def inner(values: Any) -> Any:
        return values.nothing_of_the_kind

    @kernel
    def outer(values: Any) -> Any:
        return inner(values)

    for _ in range(2):
        with pytest.raises(TypingError, match="nothing_of_the_kind"):
            outer(np.zeros(3))


def test_while_it_is_recorded_nothing_is_compiled_and_nothing_written() -> None:
    @kernel
    def fill(values: Any, number: float) -> None:
        for i in range(len(values)):
            values[i] = number

    @kernel
    def sized(number: int) -> int:
        return number * 3

    known, values = len(JOURNAL.made), np.zeros(5)
    with recording() as recorder:
        fill(values, 1.0)
        fill(values, 2.0)
        fill(np.zeros(5, np.float32), 1.0)
        assert sized(4) == 12, "what has to do with numbers alone is done"
    assert not values.any()
    assert [one.told[0] for one in recorder.wanted] == ["fill", "fill", "sized"]
    assert len({one.names for one in recorder.wanted}) == 3
    assert len(JOURNAL.made) == known
    recorder.wanted[0].make()
    fill(values, 1.0)
    assert values.all()
    assert names(known) == ["fill"]


def passes_of(kind: Any) -> list[str]:
    target = cpu_target
    made = kind(target.typing_context, target.target_context, None, (), None, compiler.Flags(), {})
    (pipeline,) = made.define_pipelines()
    return [one.__name__ for one, _ in pipeline.passes]


def test_kernels_go_through_the_other_passes_of_numba_in_their_order() -> None:
    numbas = passes_of(compiler.Compiler)
    assert passes_of(KernelCompiler) == [one for one in numbas if one not in _NOT_IN_KERNELS]


def test_each_pass_that_is_left_out_is_one_of_numba() -> None:
    assert set(passes_of(compiler.Compiler)) >= _NOT_IN_KERNELS


def test_kernels_are_compiled_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[KernelCompiler] = []
    define = KernelCompiler.define_pipelines
    monkeypatch.setattr(
        KernelCompiler, "define_pipelines", lambda self: made.append(self) or define(self)
    )

    @kernel
    def twice(values: Any) -> None:
        for i in range(values.shape[0]):
            values[i] *= 2

    dispatcher: Any = twice  # whose cache may have it
    dispatcher._compiler._compile_core((types.Array(types.float32, 1, "C"),), None)
    assert len(made) == 1
