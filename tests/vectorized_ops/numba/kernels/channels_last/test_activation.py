from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import vectorized_ops.torch._team  # noqa: F401 (lends its threads)
from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import STORED
from vectorized_ops.numba.kernels.channels_last import activation as kernels
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.reference.rectifier import Rectifier

SHAPE = (37, 21)
FLOAT = np.dtype(np.float32)
STRANGE = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, -0.0]


@pytest.fixture
def values() -> np.ndarray:
    """Two arrays: outputs of a ReLU among other things, and gradients."""
    found = np.random.default_rng(0).integers(-3, 4, (2, *SHAPE)).astype(np.float32)
    found[0].flat[: len(STRANGE)] = STRANGE
    found[1].flat[3:6] = STRANGE[:3]
    return found


def arguments(
    out: np.ndarray, read: list[np.ndarray], summands: int = 0, scratch: np.ndarray | None = None
) -> np.ndarray:
    totals = 0 if scratch is None else scratch.ctypes.data
    sums = totals + 3 * padded(SHAPE[1]) * 8
    pairs = [n for array in (out, *read) for n in (array.ctypes.data, SHAPE[1])]
    return np.array([3, *SHAPE, 0, 0, 0, sums, totals, summands, *pairs], np.int64)


def reference_gradient(gradient: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    out = np.empty_like(gradient)
    Rectifier().backward(gradient, outputs, out)
    return out


def test_rectified_values_equal_the_reference_also_in_place(values: np.ndarray) -> None:
    expected, out = np.empty(SHAPE, np.float32), np.empty(SHAPE, np.float32)
    Rectifier().forward(values[0], expected)
    kernels.rectify(arguments(out, [values[0]]), FLOAT)
    assert_array_equal(out, expected)
    kernels.rectify(arguments(values[0], [values[0]]), FLOAT)
    assert_array_equal(values[0], expected)


@pytest.mark.parametrize("floor", [0.0, -np.inf])
def test_joined_branches_are_at_least_the_floor(values: np.ndarray, floor: float) -> None:
    out = np.empty(SHAPE, np.float32)
    given = arguments(out, list(values))
    given[4] = np.array(floor).view(np.int64)
    kernels.join(given, FLOAT)
    with np.errstate(invalid="ignore"):
        assert_array_equal(out, np.maximum(values[0] + values[1], floor))


def test_copies_and_sums(values: np.ndarray) -> None:
    out, finite = np.empty(SHAPE, np.float32), np.ones(SHAPE, np.float32)
    kernels.copy(arguments(out, [values[0]]), FLOAT)
    assert_array_equal(out, values[0])
    kernels.add(arguments(out, [finite, values[1], finite], summands=3), FLOAT)
    assert_array_equal(out, values[1] + 2)


@pytest.mark.parametrize("in_place", [False, True])
def test_gradients_are_summed_and_cut_where_the_reference_cuts(
    values: np.ndarray, in_place: bool
) -> None:
    outputs, gradient = values
    expected = reference_gradient(gradient + 1, outputs)
    out, ones = gradient if in_place else np.empty(SHAPE, np.float32), np.ones(SHAPE, np.float32)
    kernels.cut(arguments(out, [outputs, gradient, ones], summands=2), FLOAT)
    assert_array_equal(out, expected)


def test_what_was_cut_is_summed_over_the_rows(values: np.ndarray) -> None:
    outputs, gradient = values[0], np.nan_to_num(values[1], posinf=1, neginf=1)
    out, sums = np.empty(SHAPE, np.float32), np.empty(SHAPE[1], np.float32)
    scratch = np.empty(3 * padded(SHAPE[1]) * 3 // 2)
    kernels.cut_and_sum(arguments(out, [outputs, gradient], 1, scratch), FLOAT, sums.ctypes.data)
    expected = reference_gradient(gradient, outputs)
    assert_array_equal(out, expected)
    assert_array_equal(sums, expected.sum(0))


@pytest.mark.parametrize("name", ["rectify", "copy", "add", "cut"])
def test_bfloat16_is_rounded_where_it_is_written(name: str, values: np.ndarray) -> None:
    kernel, summands = getattr(kernels, name), {"add": 3, "cut": 2}.get(name, 0)
    given = [rounded(array) for array in (*values * np.float32(1.01), *values)]
    given = given[: {"add": 3, "cut": 3}.get(name, 1)]
    out, wide = np.full(SHAPE, 77, STORED), np.empty(SHAPE, np.float32)
    kernel(arguments(out, given, summands), STORED)
    read = [widened(array) for array in given]
    kernel(arguments(wide, read, summands), FLOAT)
    assert_array_equal(widened(out), widened(rounded(wide)))


def test_what_was_cut_of_bfloat16_is_summed_in_float32(values: np.ndarray) -> None:
    given = [rounded(np.nan_to_num(array, posinf=1, neginf=1)) for array in values]
    out, sums = np.empty(SHAPE, STORED), np.empty(SHAPE[1], np.float32)
    scratch = np.empty(3 * padded(SHAPE[1]) * 3 // 2)
    kernels.cut_and_sum(arguments(out, given, 1, scratch), STORED, sums.ctypes.data)
    expected = reference_gradient(widened(given[1]), widened(given[0]))
    assert_array_equal(widened(out), expected)
    assert_array_equal(sums, expected.sum(0))


def test_kernels_are_shared_by_all_shapes() -> None:
    compiled: Any = kernels.cut
    assert len(compiled.signatures) <= 2  # of both types
