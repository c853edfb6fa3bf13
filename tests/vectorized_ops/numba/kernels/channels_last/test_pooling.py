from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import vectorized_ops.torch._team  # noqa: F401 (lends its threads)
from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import STORED
from vectorized_ops.numba.kernels.channels_last import pooling as kernels
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.reference.pooling import AveragePooling, MaxPooling
from vectorized_ops.shapes import PoolingShape

FLOAT = np.dtype(np.float32)
STRANGE = np.array([np.nan, np.inf, -np.inf], np.float32)


def draw_shape(draw: Any) -> PoolingShape:
    sides, kernel = (draw(st.tuples(*[st.integers(1, n)] * 2)) for n in (9, 4))
    stride = draw(st.tuples(*[st.integers(1, 3)] * 2))
    padding = tuple(draw(st.integers(0, extent - 1)) for extent in kernel)
    try:
        return PoolingShape(*sides, kernel, stride, padding, draw(st.booleans()))
    except OperationError:
        assume(False)
        raise


class Pooling:
    """Arrays of a pooling, and its kernels."""

    def __init__(self, shape: PoolingShape, number: int, channels: int, seed: int) -> None:
        self.shape, self.number, self.channels = shape, number, channels
        self.rng = np.random.default_rng(seed)
        inside = number, shape.height, shape.width, channels
        pooled = number, shape.lines, shape.pixels, channels
        self.images, self.gradient = (
            self.rng.integers(-3, 4, size).astype(np.float32) for size in (inside, pooled)
        )
        self.out, self.back = np.full(pooled, 77, np.float32), np.full(inside, 77, np.float32)
        self.which = np.full((*pooled[:3], padded(channels)), 99, np.uint8)

    def arguments(
        self,
        out: np.ndarray,
        values: np.ndarray,
        rectify: bool = False,
        shares: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        s = self.shape
        sizes = (
            3, self.number, s.height, s.width, self.channels, s.lines, s.pixels, *s.kernel,
            *s.stride, *s.padding, 0, rectify,
        )  # fmt: skip
        arrays = out, values, self.which, self.out, *(shares or (out, out))
        distances = self.channels, self.channels, padded(self.channels)
        addresses = (array.ctypes.data for array in arrays)
        return np.array([*sizes, *addresses, *distances, 0, 0, 0, 0], np.int64)


@given(
    data=st.data(),
    number=st.integers(1, 3),
    channels=st.sampled_from([1, 15, 16, 17, 70, 130]),
    rectify=st.booleans(),
)
@settings(max_examples=80)
def test_maxima_places_and_gradients_equal_the_reference(
    data: Any, number: int, channels: int, rectify: bool
) -> None:
    shape = draw_shape(data.draw)
    pooling = Pooling(shape, number, channels, data.draw(st.integers(0, 99)))
    some = pooling.rng.choice(pooling.images.size, min(3, pooling.images.size), replace=False)
    pooling.images.flat[some] = STRANGE[: len(some)]
    reference = MaxPooling(shape)
    out, which = np.empty_like(pooling.out), np.empty(pooling.out.shape, np.uint8)
    reference.forward(pooling.images, out, which)
    kernels.largest(pooling.arguments(pooling.out, pooling.images, rectify), FLOAT)
    assert_array_equal(pooling.out, np.maximum(out, 0) if rectify else out)
    several = np.isnan(out)  # of several NaN, any may be named
    assert_array_equal(pooling.which[..., :channels][~several], which[~several])

    named = pooling.which[..., :channels]
    passed = np.where(rectify & (out <= 0), 0, pooling.gradient)
    back = np.empty_like(pooling.back)
    reference.backward(passed, named, back)
    kernels.winners(pooling.arguments(pooling.back, pooling.gradient, rectify), FLOAT)
    assert_array_equal(pooling.back, back)


@given(data=st.data(), number=st.integers(1, 3), channels=st.sampled_from([1, 15, 16, 17, 70, 130]))
@settings(max_examples=60)
def test_means_and_gradients_equal_the_reference(data: Any, number: int, channels: int) -> None:
    shape = draw_shape(data.draw)
    pooling = Pooling(shape, number, channels, data.draw(st.integers(0, 99)))
    sides, windows = (shape.height, shape.width), (shape.lines, shape.pixels)
    counts = []
    for axis in range(2):
        first = np.arange(windows[axis]) * shape.stride[axis]
        inside = sides[axis] + 2 * shape.padding[axis] - first
        counts.append(np.minimum(shape.kernel[axis], inside))
    shares = tuple((1 / count).astype(np.float32) for count in counts)
    out, back = np.empty_like(pooling.out), np.empty_like(pooling.back)
    reference = AveragePooling(shape)
    reference.forward(pooling.images, out)
    reference.backward(pooling.gradient, back)
    kernels.means(pooling.arguments(pooling.out, pooling.images, shares=shares), FLOAT)
    kernels.spread(pooling.arguments(pooling.back, pooling.gradient, shares=shares), FLOAT)
    assert_allclose(pooling.out, out, rtol=1e-6, atol=1e-6)
    assert_allclose(pooling.back, back, rtol=1e-6, atol=2e-6)


@given(data=st.data(), channels=st.sampled_from([1, 15, 16, 17, 70, 130]), rectify=st.booleans())
@settings(max_examples=40)
def test_bfloat16_is_rounded_where_it_is_written(data: Any, channels: int, rectify: bool) -> None:
    shape = draw_shape(data.draw)
    pooling = Pooling(shape, 2, channels, data.draw(st.integers(0, 99)))
    shares = tuple(np.full(n, 0.3, np.float32) for n in (shape.lines, shape.pixels))
    found = []
    for kind in (FLOAT, STORED):
        images, gradient, out, back, means, spread = (
            rounded(array) if kind == STORED else array.copy()
            for array in (pooling.images, pooling.gradient, *(pooling.out, pooling.back) * 2)
        )
        pooling.out = out
        kernels.largest(pooling.arguments(out, images, rectify), kind)
        kernels.winners(pooling.arguments(back, gradient, rectify), kind)
        kernels.means(pooling.arguments(means, images, shares=shares), kind)
        kernels.spread(pooling.arguments(spread, gradient, shares=shares), kind)
        found.append([rounded(widened(array)) for array in (out, back, means, spread)])
        pooling.out = pooling.out.astype(np.float32)
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)
