from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.compiling.compiler import SETTINGS
from vectorized_ops.numba.lars import LARSUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.lars import LARSUpdate as Reference

THREADS = range(1, min(4, SETTINGS.NUMBA_NUM_THREADS) + 1)
LAYERS = st.lists(
    st.tuples(
        st.integers(1, 99),
        st.sampled_from([1.0, 2.0]),
        st.sampled_from([0.0, 0.01]),
        st.sampled_from([math.nan, 0.1]),
        st.sampled_from([True, True, False]),
        st.sampled_from([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)]),
    ),
    min_size=1,
    max_size=6,
)
"""Length, rate, decay, statistic momentum, adapted, size of parameters and gradient of each."""


def parameter_groups_of(layers: Sequence[Sequence[float]]) -> ParameterGroups:
    lengths, *numbers = zip(*(layer[:4] for layer in layers), strict=True)
    bounds = np.cumsum([0, *lengths], dtype=np.int64)
    return ParameterGroups(bounds, *(np.array(each, np.float32) for each in numbers))


def vectors(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    return [rng.standard_normal(size).astype(np.float32) for _ in range(3)]


@pytest.mark.slow
@given(LAYERS, st.sampled_from([math.inf, 1.5]), st.sampled_from(THREADS))
def test_three_steps_follow_the_reference(
    layers: list[tuple[int, float, float, float, bool, tuple[float, float]]],
    bound: float,
    threads: int,
) -> None:
    numba.set_num_threads(threads)
    groups, clipping = parameter_groups_of(layers), Clipping(bound, bound)
    found = vectors(groups.size)
    for start, layer in zip(groups.bounds, layers, strict=False):
        for vector, size in zip(found, layer[5], strict=False):
            vector[start : start + layer[0]] *= np.float32(size)
    expected = [each.copy() for each in found]
    adapted = np.array([layer[4] for layer in layers])
    update = LARSUpdate(groups, clipping, 0.9, 0.02, adapted)
    reference = Reference(groups, clipping, 0.9, 0.02, adapted)
    for learning_rate in (1.0, 1.0, 0.3):
        update(*found, learning_rate)
        reference(*expected, learning_rate)
    for got, wanted in zip(found, expected, strict=True):
        assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def test_neither_another_run_nor_threads_change_a_bit(
    same_bits: Callable[..., None],
) -> None:
    def compute() -> list[np.ndarray]:
        layers = [(9001, 1, 0.01, math.nan), (4000, 1, 0, 0.1), (1000, 2, 0, math.nan)]
        state = vectors(14_001)
        adapted = np.array([True, False, False])
        LARSUpdate(parameter_groups_of(layers), Clipping(norm=9), 0.9, 0.001, adapted)(*state, 0.1)
        return state

    same_bits(compute)


def test_vectors_of_another_length_are_refused() -> None:
    groups = parameter_groups_of([(16, 1, 0, math.nan)])
    update = LARSUpdate(groups, Clipping(), 0.9, 0.001, np.array([True]))
    with pytest.raises(OperationError, match=r"expected contiguous float32 \(16,\)"):
        update(*vectors(17), 0.1)
