from __future__ import annotations

from typing import Any

import pytest
from numba.core import compiler, types
from numba.core.registry import cpu_target

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.kernel_compiler import _NOT_IN_KERNELS, KernelCompiler


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
