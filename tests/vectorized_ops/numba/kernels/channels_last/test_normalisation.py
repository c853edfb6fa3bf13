from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import vectorized_ops.torch._team  # noqa: F401 (lends its threads)
from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.epilogue import IDENTITY, RELU
from vectorized_ops.layout import STORED
from vectorized_ops.numba.kernels.arithmetic import batch_normalisation as arithmetic
from vectorized_ops.numba.kernels.channels_last import normalisation as kernels
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.reference.normalisation import BatchNormalisation

EPSILON, MOMENTUM, THREADS = 1e-3, 0.3, 3
FLOAT = np.dtype(np.float32)


class Layer:
    """Arrays of one layer, and its kernels in the order in which they are called."""

    def __init__(self, rng: np.random.Generator, rows: int, channels: int) -> None:
        self.shape = rows, channels
        spread, middle = rng.uniform(0.1, 4, channels), rng.uniform(-9, 9, channels)
        self.values = (rng.standard_normal(self.shape) * spread + middle).astype(np.float32)
        self.gradient, self.addend, self.other = (
            rng.standard_normal(self.shape).astype(np.float32) for _ in range(3)
        )
        self.scale, self.shift, self.mean, self.variance = rng.uniform(
            0.5, 2, (4, channels)
        ).astype(np.float32)
        self.table = np.zeros((arithmetic.TABLE_ROWS, padded(channels)), np.float32)
        self.scratch = np.empty(THREADS * 2 * padded(channels) * 3 // 2)
        self.reference = BatchNormalisation(1, rows, 1, channels, EPSILON)

    def arguments(
        self,
        *arrays: np.ndarray,
        table: np.ndarray | None = None,
        scalar: float = 0.0,
        summands: int = 0,
    ) -> np.ndarray:
        totals = self.scratch.ctypes.data
        sums = totals + THREADS * 2 * padded(self.shape[1]) * 8
        (bits,) = np.array([scalar]).view(np.int64)
        constants = (self.table if table is None else table).ctypes.data
        pairs = [n for array in arrays for n in (array.ctypes.data, self.shape[1])]
        return np.array(
            [THREADS, *self.shape, 0, bits, constants, sums, totals, summands, *pairs], np.int64
        )

    @property
    def parameters(self) -> np.ndarray:
        arrays = self.scale, self.shift, self.mean, self.variance
        return np.array([array.ctypes.data for array in arrays], np.int64)

    def take_statistics(self) -> None:
        pivots = np.zeros((1, self.table.shape[1]), np.float32)
        given = self.arguments(self.values, table=pivots)
        kernels.moments(given, FLOAT)
        kernels.statistics(given, self.table.ctypes.data, self.parameters, EPSILON, MOMENTUM)

    def slopes(self, given: np.ndarray, training: bool) -> tuple[np.ndarray, np.ndarray]:
        """The gradients of scale and shift; the table is complete then."""
        found = np.full((2, self.shape[1]), 99, np.float32)
        addresses = np.array([row.ctypes.data for row in found], np.int64)
        kernels.slopes(given, self.table.ctypes.data, addresses, training)
        return found[0], found[1]


def as_images(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)[None, :, None, :]


@given(
    seed=st.integers(0, 99),
    rows=st.integers(2, 200),
    channels=st.sampled_from([1, 8, 15, 16, 17, 40, 1030]),
)
@settings(max_examples=40)
def test_statistics_equal_the_reference_and_move_the_running_ones(
    seed: int, rows: int, channels: int
) -> None:
    layer = Layer(np.random.default_rng(seed), rows, channels)
    before, mean, variance = (layer.mean.copy(), layer.variance.copy()), *np.empty((2, channels))
    layer.take_statistics()
    layer.reference.statistics(as_images(layer.values), mean, variance)
    table = layer.table[:, :channels]
    assert_allclose(table[arithmetic.MEAN], mean, rtol=1e-5, atol=1e-5)
    assert_allclose(table[arithmetic.INVERSE], 1 / np.sqrt(variance + EPSILON), rtol=1e-5)
    moved = [(1 - MOMENTUM) * old for old in before]
    unbiased = variance * rows / (rows - 1)
    assert_allclose(layer.mean, moved[0] + MOMENTUM * mean, rtol=1e-5, atol=1e-5)
    assert_allclose(layer.variance, moved[1] + MOMENTUM * unbiased, rtol=1e-5)


@given(
    seed=st.integers(0, 99),
    rows=st.integers(2, 100),
    channels=st.sampled_from([1, 15, 16, 17, 40, 1030]),
    training=st.booleans(),
    relu=st.booleans(),
)
@settings(max_examples=40)
def test_values_and_gradients_equal_the_reference(
    seed: int, rows: int, channels: int, training: bool, relu: bool
) -> None:
    layer = Layer(np.random.default_rng(seed), rows, channels)
    mean, variance = layer.mean.astype(np.float64), layer.variance.astype(np.float64)
    if training:
        layer.take_statistics()
        layer.reference.statistics(as_images(layer.values), mean, variance)
    else:
        table = layer.table.ctypes.data
        kernels.running_statistics(channels, table, layer.parameters, EPSILON)
    state = mean, variance, layer.scale, layer.shift
    out, floor = np.empty_like(layer.values), 0.0 if relu else -math.inf
    epilogue = RELU if relu else IDENTITY
    kernels.normalise(layer.arguments(out, layer.values, scalar=floor), FLOAT)
    expected = np.empty_like(as_images(out))
    layer.reference.forward(as_images(layer.values), *state, expected, epilogue=epilogue)
    assert_allclose(out, expected[0, :, 0], rtol=0, atol=1e-5 * np.abs(expected).max())

    layer.gradient[np.abs(out) < 1e-4] = 0  # the sides of zero may differ
    floor = 0.0 if relu else math.nan
    given = layer.arguments(layer.values, layer.gradient, scalar=floor)
    kernels.gradient_sums(given, FLOAT)
    slopes = layer.slopes(given, training)
    kernels.denormalise(layer.arguments(out, layer.values, layer.gradient, scalar=floor), FLOAT)
    results = np.empty((2, channels))
    images = as_images(layer.values)
    layer.reference.backward(
        images, as_images(layer.gradient), *state, epilogue, *results, expected
    )
    for found, wanted in zip(slopes, results, strict=True):
        assert_allclose(found, wanted, rtol=0, atol=2e-5 * max(1, np.abs(wanted).max()))
    alive = layer.table[arithmetic.FACTOR, :channels] * layer.gradient
    if training:  # a difference of what is alive: of two rows next to nothing is left
        wanted, terms = expected[0, :, 0], np.abs(alive).max(axis=0)
    else:  # mean and variance are constants: no part of the gradient comes by them
        dead = np.empty_like(expected)
        layer.reference.forward(images, *state, dead)
        wanted, terms = np.where(relu & (dead[0, :, 0] <= 0), 0, alive), np.zeros(channels)
    scale = np.maximum(max(1, np.abs(wanted).max()), terms)
    assert_allclose(out / scale, wanted / scale, rtol=0, atol=2e-5)


@pytest.mark.parametrize("channels", [16, 21])
def test_joins_add_cut_and_sum(channels: int) -> None:
    layer = Layer(np.random.default_rng(0), 70, channels)
    layer.take_statistics()
    out, plain, cut = (np.empty_like(layer.values) for _ in range(3))
    kernels.normalise(layer.arguments(plain, layer.values, scalar=-math.inf), FLOAT)
    kernels.join(layer.arguments(out, layer.values, layer.addend, scalar=0.0), FLOAT)
    assert_array_equal(out, np.maximum(plain + layer.addend, 0))
    given = layer.arguments(cut, layer.values, out, layer.gradient, layer.other, summands=2)
    kernels.joint_gradient_sums(given, FLOAT)
    expected = np.where(out <= 0, 0, layer.gradient + layer.other)
    assert_array_equal(cut, expected)
    scale, shift = layer.slopes(given, training=True)
    normalised = (plain - layer.shift) / layer.scale
    assert_allclose(shift, expected.sum(0), atol=1e-4)
    assert_allclose(scale, (expected * normalised).sum(0), atol=1e-3)


def passed(layer: Layer, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """All that the kernels make of values, gradient, addend and another gradient of one type."""
    values, gradient, addend, other = arrays
    kind, out, joint, cut, back = values.dtype, *(np.zeros_like(values) for _ in range(4))
    given = layer.arguments(values, table=np.zeros((1, layer.table.shape[1]), np.float32))
    layer.table[...] = 0
    kernels.moments(given, kind)
    kernels.statistics(given, layer.table.ctypes.data, np.zeros(4, np.int64), EPSILON, MOMENTUM)
    kernels.normalise(layer.arguments(out, values), kind)
    kernels.join(layer.arguments(joint, values, addend), kind)
    given = layer.arguments(cut, values, joint, gradient, other, summands=2)
    kernels.joint_gradient_sums(given, kind)
    slopes = layer.slopes(given, training=True)
    given = layer.arguments(values, gradient)
    kernels.gradient_sums(given, kind)
    slopes += layer.slopes(given, training=True)
    kernels.denormalise(layer.arguments(back, values, gradient), kind)
    return [layer.table, *slopes, out, joint, cut, back]


@pytest.mark.parametrize("channels", [16, 21])
def test_bfloat16_is_rounded_where_it_is_written(channels: int) -> None:
    layer = Layer(np.random.default_rng(0), 70, channels)
    given = [rounded(a) for a in (layer.values, layer.gradient, layer.addend, layer.other)]
    found = [array.copy() for array in passed(layer, given)]
    expected = passed(layer, [widened(array) for array in given])
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, rounded(other) if one.dtype == STORED else other)


def test_statistics_of_layers_without_any_are_not_written() -> None:
    layer = Layer(np.random.default_rng(0), 10, 5)
    pivots = np.zeros((1, 16), np.float32)
    given = layer.arguments(layer.values, table=pivots)
    kernels.moments(given, FLOAT)
    nothing = np.zeros(4, np.int64)
    kernels.statistics(given, layer.table.ctypes.data, nothing, EPSILON, MOMENTUM)
    assert_array_equal(layer.table[arithmetic.FACTOR, :5], layer.table[arithmetic.INVERSE, :5])
    assert (layer.table[arithmetic.OFFSET, :5] == 0).all()
