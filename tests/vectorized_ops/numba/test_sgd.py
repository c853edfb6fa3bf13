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
from vectorized_ops.numba import sgd
from vectorized_ops.numba.compiling.compiler import SETTINGS
from vectorized_ops.numba.sgd import SGDUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.sgd import SGDUpdate as Reference

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
    rng = np.random.default_rng(size)
    return [rng.standard_normal(size).astype(np.float32) for _ in range(3)]


@given(
    STRETCHES,
    st.sampled_from([0.0, 0.9]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([math.inf, 1.5]),
    st.sampled_from([math.inf, 1.5]),
    st.sampled_from(THREADS),
)
def test_three_steps_follow_the_reference(
    groups: list[tuple[int, float, float, float]],
    momentum: float,
    nesterov: bool,
    l1: bool,
    norm: float,
    value: float,
    threads: int,
) -> None:
    numba.set_num_threads(threads)
    groups, clipping = parameter_groups_of(groups), Clipping(norm, value)
    found, expected = vectors(groups.size), vectors(groups.size)
    update = SGDUpdate(groups, clipping, momentum, nesterov, l1)
    reference = Reference(groups, clipping, momentum, nesterov, l1)
    for learning_rate in (0.1, 0.1, 0.03):
        update(*found, learning_rate)
        reference(*expected, learning_rate)
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
        SGDUpdate(parameter_groups_of(groups), Clipping(norm=norm), 0.9, True)(*state, 0.1)
        return state

    same_bits(compute)


def test_what_is_no_number_stays_where_it_is() -> None:
    parameters, gradient, velocity = vectors(40)
    gradient[3] = np.nan
    groups = parameter_groups_of([(40, 1, 0.01, math.nan)])
    SGDUpdate(groups, Clipping(norm=1, value=1), 0.9, False)(parameters, gradient, velocity, 0.1)
    assert np.flatnonzero(np.isnan(parameters)).tolist() == [3]


def test_vectors_of_another_length_are_refused() -> None:
    update = SGDUpdate(parameter_groups_of([(16, 1, 0, math.nan)]), Clipping(), 0.9, False)
    with pytest.raises(OperationError, match=r"expected contiguous float32 \(16,\)"):
        update(*vectors(17), 0.1)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
@pytest.mark.parametrize("name", ["_descend", "follow"])
def test_inner_loops_are_compiled_to_vector_instructions(
    name: str, assemblies: Callable[[Any], list[str]]
) -> None:
    kernel: Any = getattr(sgd, name)
    parameters, gradient, velocity = vectors(32)
    number = np.float32(0.5)
    if name == "follow":
        kernel(parameters, gradient, number)
    else:
        kernel(parameters, gradient, velocity, *3 * [number], True, *2 * [number], False)
    for assembly in assemblies(kernel):
        words = {word.removeprefix("v") for word in assembly.split()}
        assert {"mulps", "subps"} <= words
