import itertools
import resource
from typing import Any

import numpy as np
import pytest
from numba.core import compiler as numba_compiler
from numba.core import types
from numba.core.registry import cpu_target
from numba.core.target_extension import CPU
from numba.core.utils import order_by_target_specificity

from vectorized_ops.numba.compiling import shortcuts
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.shortcuts import KernelFlags


def least_and_largest(left: Any, right: Any) -> Any:
    return min(left, right), max(left, right)


@kernel
def compiled(left: Any, right: Any) -> Any:
    return min(left, right), max(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(3, 5), (5, 3), (-4, -9), (2, 2), (-(2**63), 2**63 - 1), (2.5, 1.0), (1, 0.5), (True, False)],
)
def test_least_and_largest_are_those_of_python(left: Any, right: Any) -> None:
    assert compiled(left, right) == least_and_largest(left, right)


def test_narrow_integers_are_left_to_numba() -> None:
    assert compiled(np.int32(-7), np.int32(6)) == (-7, 6)
    assert compiled(np.uint64(2**63 + 1), np.uint64(1)) == (1, 2**63 + 1)


@pytest.mark.parametrize("function", shortcuts._RESULTS, ids=lambda one: one.__name__)
def test_scalars_have_the_types_that_numba_gives_them(function: Any) -> None:
    context = cpu_target.typing_context
    context.refresh()
    kind = context.resolve_value_type(function)
    first, *others = order_by_target_specificity(CPU, kind.templates)
    without = types.Function(tuple(others))
    scalars = (types.int64, types.float32, types.int32, types.float64, types.boolean)
    for arguments in itertools.product(scalars, scalars):
        signature = kind.get_call_type(context, arguments, {})
        assert signature.return_type == without.get_call_type(context, arguments, {}).return_type
        mine = shortcuts._RESULTS[function].get(arguments)
        assert first(context).apply(arguments, {}) == (mine and mine(*arguments))


def test_flags_are_equal_where_all_options_are() -> None:
    flags, others = KernelFlags(), KernelFlags()
    assert flags == flags.copy() == others
    assert type(flags.copy()) is KernelFlags
    others.no_compile = True
    assert flags != others
    assert flags != "flags"
    assert len({flags, flags.copy(), others}) == 2
    assert flags == numba_compiler.Flags()  # type: ignore[attr-defined]


def depth_reached(most: int) -> int:
    return most and 1 + depth_reached(most - 1)


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_calls_across_any_depth_map_no_stack_again_and_again() -> None:
    def most_faults() -> int:
        found = []
        for depth in range(200):  # some of them end where a piece of 16 KiB does
            before = page_faults()
            for _ in range(100):
                depth_reached(depth)
            found.append(page_faults() - before)
        return max(found[1:])

    assert shortcuts.on_one_stack(most_faults) < 50
