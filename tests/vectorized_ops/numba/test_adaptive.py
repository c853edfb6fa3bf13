from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.numba import adaptive
from vectorized_ops.numba.compiling.compiler import SETTINGS
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference import adaptive as reference

THREADS = range(1, min(4, SETTINGS.NUMBA_NUM_THREADS) + 1)
RULES: dict[str, tuple[int, tuple[float, ...]]] = {
    "AdaGradUpdate": (1, (1e-8,)),
    "RMSPropUpdate": (1, (0.9, 1e-8)),
    "AdaDeltaUpdate": (2, (0.9, 1e-6)),
    "AdamUpdate": (2, (0.9, 0.99, 1e-8)),
}
"""Vectors of the state, and the numbers of each rule."""
GROUPS = st.lists(
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


def vectors(name: str, size: int) -> list[np.ndarray]:
    """Parameters, some of them zero, gradient and a state of zeros."""
    rng = np.random.default_rng(size)
    drawn = [rng.standard_normal(size).astype(np.float32) for _ in range(2)]
    drawn[0][::3] = 0
    return [*drawn, np.zeros((RULES[name][0], size), np.float32)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
@given(
    GROUPS,
    st.sampled_from([math.inf, 1.5]),
    st.sampled_from([math.inf, 1.5]),
    st.booleans(),
    st.sampled_from(THREADS),
)
@settings(max_examples=40)
def test_three_steps_follow_the_reference(
    name: str,
    groups: list[tuple[int, float, float, float]],
    norm: float,
    value: float,
    l1: bool,
    threads: int,
) -> None:
    numba.set_num_threads(threads)
    arguments = parameter_groups_of(groups), Clipping(norm, value), l1, *RULES[name][1]
    size = arguments[0].size
    found, expected = vectors(name, size), vectors(name, size)
    update, defined = getattr(adaptive, name)(*arguments), getattr(reference, name)(*arguments)
    for step, learning_rate in enumerate((0.1, 0.1, 0.03), start=1):
        update(*found, step, learning_rate)
        defined(*expected, step, learning_rate)
    for got, wanted in zip(found, expected, strict=True):
        if norm == math.inf:
            assert_array_equal(got, wanted)
        else:  # the norms are sums in another order
            assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("norm", [math.inf, 2.0])
def test_neither_another_run_nor_threads_change_a_bit(
    name: str, norm: float, same_bits: Callable[..., None]
) -> None:
    def compute() -> list[np.ndarray]:
        groups = [(5001, 1, 0.01, math.nan), (4000, 1, 0, 0.1), (1000, 2, 0, math.nan)]
        state = vectors(name, 10_001)
        update = getattr(adaptive, name)
        update(parameter_groups_of(groups), Clipping(norm=norm), False, *RULES[name][1])(
            *state, 1, 0.1
        )
        return state

    same_bits(compute)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("l1", [False, True])
def test_what_is_not_a_number_stays_visible(name: str, l1: bool) -> None:
    parameters, gradient, state = vectors(name, 40)
    parameters[3], gradient[5] = math.nan, math.nan
    groups = parameter_groups_of([(40, 1, 0.5, math.nan)])
    getattr(adaptive, name)(groups, Clipping(), l1, *RULES[name][1])(
        parameters, gradient, state, 1, 0.1
    )
    assert np.flatnonzero(np.isnan(parameters)).tolist() == [3, 5]


@pytest.mark.parametrize("name", RULES)
def test_vectors_of_another_length_are_refused(name: str) -> None:
    groups = parameter_groups_of([(16, 1, 0, math.nan)])
    update = getattr(adaptive, name)(groups, Clipping(), False, *RULES[name][1])
    with pytest.raises(OperationError, match=r"expected contiguous float32 \(16,\)"):
        update(*vectors(name, 17), 1, 0.1)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
@pytest.mark.parametrize(
    ("name", "numbers"), [("_adagrad", 1), ("_rmsprop", 3), ("_adadelta", 3), ("_adam", 5)]
)
def test_inner_loop_is_compiled_to_vector_instructions(
    name: str, numbers: int, assemblies: Callable[[Any], list[str]]
) -> None:
    kernel: Any = getattr(adaptive, name)
    number = np.float32(0.5)
    vectors_ = [np.ones(32, np.float32) for _ in range(4)]
    kernel(*vectors_, number, number, tuple(numbers * [number]), False, number, number)
    for assembly in assemblies(kernel):
        assert {"divps", "sqrtps"} <= {word.removeprefix("v") for word in assembly.split()}
