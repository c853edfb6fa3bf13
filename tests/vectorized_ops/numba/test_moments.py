"""Statistics gathered by the convolution that writes the values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import STORED, zeros_images_last
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.depthwise_convolution import DepthwiseConvolution
from vectorized_ops.numba.moments import SUMMED_VALUES
from vectorized_ops.shapes import ConvolutionShape

SHAPES = {
    "one pixel": ConvolutionShape(16, 1, 1, 3, 15, (1, 1)),
    "a block of filters that overlaps another": ConvolutionShape(32, 9, 9, 3, 17, (1, 1)),
    "more pixels than are summed at once": ConvolutionShape(16, 21, 33, 3, 15, (1, 1)),
    "windows in the padding": ConvolutionShape(20, 5, 4, 3, 3, (3, 3), (2, 1), (2, 2)),
    "three vectors of images": ConvolutionShape(44, 7, 6, 3, 3, (1, 1)),
    "groups": ConvolutionShape(16, 6, 7, 9, 45, (3, 2), (1, 2), groups=3),
}


def padded(images: int) -> int:
    return -(-images // 16) * 16


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    array = zeros_images_last((padded(shape[0]), *shape[1:]))
    array[...] = np.random.default_rng(seed).standard_normal(array.shape)
    return array


def gathered(
    shape: ConvolutionShape, images: int, images_in: np.ndarray, weights: np.ndarray,
    bias: np.ndarray | None = None, relu: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Results of a convolution, and their mean and variance by moments used for the second time."""
    operation, out = Convolution(shape), normal(shape.outputs, 9)
    moments = operation.moments(images)
    mean, variance = np.full((2, shape.filters), np.nan, np.float32)
    operation.forward(images_in * 3, weights, bias, out, moments=moments)
    operation.forward(images_in, weights, bias, out, relu, moments=moments)
    moments.write(mean, variance)
    return out, mean, variance


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_moments_are_those_of_the_real_images_for_any_number_of_threads(
    shape: ConvolutionShape, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    inputs, images = normal(shape.inputs, 1), shape.images - 3
    weights = np.random.default_rng(2).standard_normal(shape.weights).astype(np.float32)
    bias = np.linspace(-5, 5, shape.filters, dtype=np.float32)
    out, mean, variance = gathered(shape, images, inputs, weights, bias)
    exact = out[:images].astype(np.float64)
    assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=3e-7, atol=3e-7)
    assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=3e-6)


@pytest.mark.parametrize("images", [16, 32])
@pytest.mark.parametrize("make", [Convolution, DepthwiseConvolution])
def test_moments_of_bfloat16_are_those_of_results_that_are_not_rounded_yet(
    make: Any, images: int
) -> None:
    groups = 6 if make is DepthwiseConvolution else 1
    shape = ConvolutionShape(images, 5, 4, 6, 6, (3, 3), padding=(1, 1), groups=groups)
    inputs, plain, kept = (
        zeros_images_last(size, kind)
        for size, kind in ((shape.inputs, "f4"), (shape.outputs, "f4"), (shape.outputs, STORED))
    )
    rng, operation = np.random.default_rng(1), make(shape)
    inputs[...] = rng.integers(-60, 61, inputs.shape)
    stored = zeros_images_last(shape.inputs, STORED)
    stored[...] = rounded(inputs)
    weights = rng.integers(-9, 10, shape.weights).astype(np.float32)
    found = []
    for given, out in ((inputs, plain), (stored, kept)):
        moments = operation.moments(images)
        operation.forward(given, weights, None, out, moments=moments)
        moments.write(*(both := np.empty((2, shape.filters), np.float32)))
        found.append(both)
    assert_array_equal(found[1], found[0])
    assert_array_equal(kept, rounded(plain))
    assert (widened(kept) != plain).any()


def test_results_do_not_depend_on_whether_moments_are_wanted(
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    shape = SHAPES["a block of filters that overlaps another"]
    inputs, plain = normal(shape.inputs, 1), normal(shape.outputs, 2)
    weights = np.random.default_rng(2).standard_normal(shape.weights).astype(np.float32)
    Convolution(shape).forward(inputs, weights, None, plain)
    for past in (False, True):
        with storing(past):
            assert_array_equal(gathered(shape, 32, inputs, weights)[0], plain)


def test_moments_are_those_of_what_a_relu_has_not_cut_off_yet() -> None:
    shape = SHAPES["one pixel"]
    inputs = normal(shape.inputs, 1)
    weights = np.random.default_rng(2).standard_normal(shape.weights).astype(np.float32)
    plain, cut = (gathered(shape, 16, inputs, weights, relu=relu) for relu in (False, True))
    assert_array_equal(cut[0], np.maximum(plain[0], 0))
    assert_array_equal(cut[1:], plain[1:])


def identity(values: np.ndarray) -> tuple[ConvolutionShape, np.ndarray]:
    """A convolution that writes its inputs, so that its moments are those of any values."""
    images, height, width, channels = values.shape
    shape = ConvolutionShape(images, height, width, channels, channels, (1, 1))
    return shape, np.eye(channels, dtype=np.float32)[:, :, None, None]


def test_moments_of_many_values_far_from_zero_are_those_of_doubles() -> None:
    values = zeros_images_last((32, 60, 50, 3))
    rng = np.random.default_rng(0)
    values[...] = 1000 + rng.standard_normal(values.shape) * np.array([0.01, 1, 100])
    _, mean, variance = gathered(*_with(values))
    exact = values.astype(np.float64)
    assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=1e-7)
    assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=3e-6)


@pytest.mark.parametrize("lines", [0, 2])
def test_first_values_unlike_all_others_cost_little(lines: int) -> None:
    values = zeros_images_last((16, 64, SUMMED_VALUES // 64, 1))
    values[...] = np.random.default_rng(0).standard_normal(values.shape)
    values[:, :lines] += 1000
    values[0, 0, 0] = 1e5
    _, mean, variance = gathered(*_with(values))
    exact = values.astype(np.float64)
    assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=0, atol=1e-6 * exact.std())
    assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=1e-5)


def test_large_batches_lose_no_more_than_small_ones() -> None:
    """Squares that are all alike are rounded to the same side for as long as their sum grows."""
    values = zeros_images_last((1024, 28, 28, 3))
    rng = np.random.default_rng(0)
    values[...] = np.where(rng.random(values.shape) < 0.5, 0.1, 0.7)
    _, mean, variance = gathered(*_with(values))
    exact = values.astype(np.float64)
    assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=5e-7)
    assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=5e-6)


def test_equal_values_have_no_variance() -> None:
    values = zeros_images_last((16, 20, 20, 2))
    values[...] = 0.1, -1e30
    _, mean, variance = gathered(*_with(values))
    assert_array_equal(mean, values[0, 0, 0])
    assert_array_equal(variance, 0)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_spoils_the_moments_of_its_channel_alone(broken: float) -> None:
    shape = ConvolutionShape(16, 9, 9, 3, 3, (1, 1), groups=3)
    inputs, weights = normal(shape.inputs, 1), np.ones(shape.weights, np.float32)
    sound = gathered(shape, 16, inputs, weights)
    inputs[5, 4, 4, 1] = broken
    found = gathered(shape, 16, inputs, weights)
    for statistic, expected in zip(found[1:], sound[1:], strict=True):
        assert not np.isfinite(statistic[1])
        assert_array_equal(np.delete(statistic, 1), np.delete(expected, 1))


def test_same_threads_give_the_same_bits(same_bits: Callable[..., None]) -> None:
    shape = SHAPES["more pixels than are summed at once"]
    inputs = normal(shape.inputs, 1)
    weights = np.random.default_rng(2).standard_normal(shape.weights).astype(np.float32)
    same_bits(lambda: list(gathered(shape, 16, inputs, weights)), summed_by_thread=[1, 2])


def test_moments_of_other_values_are_refused() -> None:
    shape = SHAPES["one pixel"]
    inputs, out = normal(shape.inputs, 1), normal(shape.outputs, 2)
    weights = np.zeros(shape.weights, np.float32)
    for wrong in (replace(shape, images=17), replace(shape, filters=14)):
        moments = Convolution(wrong).moments(16)
        with pytest.raises(OperationError, match=r"moments for \(threads, channels, images\)"):
            Convolution(shape).forward(inputs, weights, None, out, moments=moments)


def _with(values: np.ndarray) -> tuple[ConvolutionShape, int, np.ndarray, np.ndarray]:
    shape, weights = identity(values)
    return shape, len(values), values, weights
