from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.kernels.convolution.dot_tiles import DOT_COLUMNS, DOT_ROWS
from vectorized_ops.numba.pooled_convolution import pooled_convolution

WEIGHTS, BIAS = 2, 3
"""Places of the gradients among the results."""


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Exact in float32 in any order of summation, with many ties."""
    return rng.integers(-1, 2, shape)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


@settings(max_examples=30)
@given(data=st.data())
def test_direct_sums_equal_the_reference_for_any_shape(data: st.DataObject, pooled: Any) -> None:
    kernel = data.draw(st.integers(1, 5))
    height, width = (data.draw(st.integers(kernel + 1, 11)) for _ in range(2))
    channels = data.draw(st.sampled_from([1, 4, 5]))  # the plain convolution compiles for each
    shape = data.draw(st.integers(1, 40)), height, width, channels
    filters = data.draw(st.sampled_from([1, 5, 7, 20]))
    options = {name: data.draw(st.booleans()) for name in ("slices", "add", "masked", "rounds")}
    found, expected = pooled(shape, filters, kernel, "direct", whole_numbers, **options)
    for name in ("out", "which", "weights", "bias", "images"):
        assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("kernel", [3, 4, 5])
def test_gradient_of_images_that_nobody_needs_is_left_alone(kernel: int, pooled: Any) -> None:
    found, expected = pooled((16, 9, 8, 1), 5, kernel, "direct", whole_numbers, with_images=False)
    assert (found.images == 99).all()
    assert_array_equal(found.weights, expected.weights)
    assert_array_equal(found.bias, expected.bias)


def test_rounding_of_direct_sums_stays_small_at_the_size_of_lenet(pooled: Any) -> None:
    for shape, filters in (((64, 28, 28, 1), 20), ((64, 12, 12, 20), 50)):
        found, expected = pooled(shape, filters, 5, "direct", normal)
        for name in ("out", "weights", "bias", "images"):
            exact = getattr(expected, name)
            error = np.abs(getattr(found, name) - exact).max()
            assert error < 4e-6 * np.abs(exact).max(), (shape, name)


@pytest.mark.parametrize("kernel", [3, 4])
def test_bits_are_those_of_the_last_run_and_threads_change_only_sums_over_images(
    kernel: int, pooled: Any, same_bits: Callable[..., None]
) -> None:
    def compute() -> list[np.ndarray]:
        found, _ = pooled((40, 9, 10, 3), 7, kernel, "direct", normal)
        return list(astuple(found))

    same_bits(compute, summed_by_thread=(WEIGHTS, BIAS))


@pytest.mark.parametrize("algorithm", ["direct", "winograd4"])
def test_what_is_not_a_number_is_carried_to_every_cell_that_sees_it(algorithm: str) -> None:
    images = activations((16, 12, 12, DOT_COLUMNS))
    images[3, 0, 0, 0] = np.nan
    images[5, 11, 11, 0] = np.inf
    weights = np.ones((DOT_ROWS, DOT_COLUMNS, 5, 5), np.float32)
    out, which = activations((16, 4, 4, DOT_ROWS)), activations((16, 4, 4, DOT_ROWS), np.uint8)
    operation = pooled_convolution(images.shape, DOT_ROWS, 5, algorithm)
    operation.forward(images, weights, np.zeros(DOT_ROWS, np.float32), out, which)
    assert np.isnan(out[3, 0, 0]).all()
    assert not np.isfinite(out[5, 3, 3]).any()
    others = np.delete(out, [3, 5], axis=0)
    assert (others == 0).all()


@pytest.mark.parametrize(
    ("shape", "filters", "kernel", "algorithm"),
    [
        ((64, 28, 28, 1), 20, 5, "direct"),
        ((64, 12, 12, 20), 50, 5, "winograd4"),
        ((64, 12, 12, 20), 50, 3, "direct"),
        ((64, 13, 12, 20), 50, 5, "direct"),
    ],
)
def test_algorithm_is_winograd_where_it_fits(
    shape: tuple[int, ...], filters: int, kernel: int, algorithm: str
) -> None:
    assert pooled_convolution(shape, filters, kernel).algorithm == algorithm
    assert pooled_convolution(shape, filters, kernel, "direct").algorithm == "direct"


def test_unknown_algorithm_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperationError, match="'fft': expected one of auto, direct, winograd"):
        pooled_convolution((16, 12, 12, 4), 4, 5, "fft")


def test_map_too_small_to_be_pooled_is_refused() -> None:
    with pytest.raises(OperationError, match=r"pooling of a 1x3 map.*smaller kernel"):
        pooled_convolution((16, 5, 7, 4), 4, 5)
