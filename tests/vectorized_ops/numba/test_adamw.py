from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.numba import adamw
from vectorized_ops.numba.adamw import AdamWUpdate
from vectorized_ops.numba.compiling.compiler import SETTINGS
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.adamw import AdamWUpdate as Reference

THREADS = range(1, min(4, SETTINGS.NUMBA_NUM_THREADS) + 1)
STRETCHES = st.lists(
    st.tuples(
        st.integers(1, 99),
        st.sampled_from([0.0, 1.0, 2.0]),
        st.sampled_from([0.0, 0.01]),
        st.sampled_from([math.nan, 0.0, 0.1]),
    ),
    min_size=1,
    max_size=6,
)
"""Length, rate, decay and statistic momentum of each group."""


def parameter_groups_of(groups: Sequence[tuple[int, float, float, float]]) -> ParameterGroups:
    lengths, *numbers = zip(*groups, strict=True)
    bounds = np.cumsum([0, *lengths], dtype=np.int64)
    return ParameterGroups(bounds, *(np.array(each, np.float32) for each in numbers))


def vectors(size: int) -> list[np.ndarray]:
    """Parameters, gradient and zero moments."""
    rng = np.random.default_rng(size)
    drawn = [rng.standard_normal(size).astype(np.float32) for _ in range(2)]
    return [*drawn, *np.zeros((2, size), np.float32)]


@pytest.mark.slow
@given(
    STRETCHES,
    st.sampled_from([math.inf, 1.5]),
    st.sampled_from([math.inf, 1.5]),
    st.sampled_from(THREADS),
)
def test_three_steps_follow_the_reference(
    groups: list[tuple[int, float, float, float]], norm: float, value: float, threads: int
) -> None:
    numba.set_num_threads(threads)
    groups, clipping = parameter_groups_of(groups), Clipping(norm, value)
    found, expected = vectors(groups.size), vectors(groups.size)
    update = AdamWUpdate(groups, clipping, 0.9, 0.99, 1e-8)
    reference = Reference(groups, clipping, 0.9, 0.99, 1e-8)
    for step, learning_rate in enumerate((0.1, 0.1, 0.03), start=1):
        update(*found, step, learning_rate)
        reference(*expected, step, learning_rate)
    for got, wanted in zip(found, expected, strict=True):
        if norm == math.inf:
            assert_array_equal(got, wanted)
        else:  # the norms are sums in another order
            assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("norm", [math.inf, 2.0])
def test_neither_another_run_nor_threads_change_a_bit(
    norm: float, same_bits: Callable[..., None]
) -> None:
    def compute() -> list[np.ndarray]:
        groups = [(5001, 1, 0.01, math.nan), (4000, 1, 0, 0.1), (1000, 2, 0, math.nan)]
        state = vectors(10_001)
        update = AdamWUpdate(parameter_groups_of(groups), Clipping(norm=norm), 0.9, 0.99, 1e-8)
        update(*state, 1, 0.1)
        return state

    same_bits(compute)


def test_parameters_whose_gradient_was_always_zero_only_decay() -> None:
    parameters, gradient, *moments = vectors(40)
    before = parameters.copy()
    gradient[:] = 0
    update = AdamWUpdate(parameter_groups_of([(40, 1, 0.5, math.nan)]), Clipping(), 0.9, 0.99, 1e-8)
    update(parameters, gradient, *moments, 1, 0.25)
    assert_allclose(parameters, before * 0.875, rtol=1e-6)


def test_vectors_of_another_length_are_refused() -> None:
    groups = parameter_groups_of([(16, 1, 0, math.nan)])
    with pytest.raises(OperationError, match=r"expected contiguous float32 \(16,\)"):
        AdamWUpdate(groups, Clipping(), 0.9, 0.99, 1e-8)(*vectors(17), 1, 0.1)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
def test_inner_loop_is_compiled_to_vector_instructions(
    assemblies: Callable[[Any], list[str]],
) -> None:
    kernel: Any = adamw._descend
    number = np.float32(0.5)
    kernel(*vectors(32), *3 * [number], tuple(4 * [number]), *3 * [number])
    for assembly in assemblies(kernel):
        assert {"divps", "sqrtps"} <= {word.removeprefix("v") for word in assembly.split()}
