from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.reference.pooled_convolution import pooled_convolution


def test_hand_computed_map_is_pooled_and_its_gradient_goes_back_to_the_winners() -> None:
    images = np.array([[1, 2, 0], [3, 1, 4], [0, 2, 1]], np.float32)[None, :, :, None]
    weights = np.array([[1, -1], [2, 0]], np.float32)[None, None]
    out, which = np.empty((1, 1, 1, 1), np.float32), np.empty((1, 1, 1, 1), np.uint8)
    operation = pooled_convolution(images.shape, filters=1, kernel=2)
    operation.forward(images, weights, np.array([10], np.float32), out, which)
    # The map without bias: [[1-2+6, 2-0+2], [3-1+0, 1-4+4]] = [[5, 4], [2, 1]].
    assert (out.item(), which.item()) == (15, 0)

    weights_out, bias_out = np.empty_like(weights), np.empty(1, np.float32)
    images_out = np.empty_like(images)
    gradient = np.array(3, np.float32).reshape(1, 1, 1, 1)
    operation.backward(images, gradient, which, weights, weights_out, bias_out, images_out)
    assert_array_equal(weights_out[0, 0], [[3, 6], [9, 3]])
    assert_array_equal(bias_out, [3])
    assert_array_equal(images_out[0, :, :, 0], [[3, -3, 0], [6, 0, 0], [0, 0, 0]])
    weights_out.fill(99)
    operation.backward(images, gradient, which, weights, weights_out, bias_out, None)
    assert_array_equal(weights_out[0, 0], [[3, 6], [9, 3]])


def test_gradients_equal_finite_differences(differences: Callable[..., np.ndarray]) -> None:
    # Multiples of 1/8 and a step of 1/64: float32 computes the differences without rounding.
    rng = np.random.default_rng(3)
    images, weights, bias, gradient = (
        rng.integers(-16, 17, shape).astype(np.float32) / 8
        for shape in [(2, 6, 7, 2), (3, 2, 3, 3), (3,), (2, 2, 2, 3)]
    )
    operation = pooled_convolution(images.shape, 3, 3)
    out, which = np.empty_like(gradient), np.empty(gradient.shape, np.uint8)

    def loss() -> float:
        operation.forward(images, weights, bias, out, which)
        return float((out * gradient).sum(dtype=np.float64))

    expected = [differences(loss, values, 1 / 64) for values in (images, weights, bias)]
    loss()
    found = [np.empty_like(values) for values in (images, weights, bias)]
    operation.backward(images, gradient, which, weights, found[1], found[2], found[0])
    for wanted, got in zip(expected, found, strict=True):
        assert_allclose(got, wanted, rtol=0, atol=1e-4)
