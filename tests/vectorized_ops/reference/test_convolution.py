from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.reference.convolution import Convolution

SHAPES = [
    # height, width, channels, filters, kernel, stride, padding
    (4, 5, 2, 3, 3, 1, 0),
    (5, 4, 1, 2, 2, 2, 1),
    (6, 7, 2, 1, 3, 3, 2),
    (5, 5, 1, 2, 1, 2, 0),
    (1, 1, 2, 2, 1, 1, 0),
    (2, 3, 1, 1, 5, 2, 4),
]


def arrays(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Images, weights, bias and a gradient of the output, in float64."""
    height, width, channels, filters, kernel, stride, padding = shape
    lines, pixels = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    rng = np.random.default_rng(5)
    sizes = (
        (2, height, width, channels),
        (filters, channels, kernel, kernel),
        (filters,),
        (2, lines, pixels, filters),
    )
    return [rng.standard_normal(size) for size in sizes]


def test_windows_are_correlated_not_flipped_and_bias_is_added() -> None:
    images = np.arange(9.0, dtype=np.float32).reshape(1, 3, 3, 1)
    weights = np.array([[[[1, 10], [100, 1000]]]], np.float32)
    out = np.empty((1, 2, 2, 1), np.float32)
    operation = Convolution(images.shape, 1, kernel=2, stride=1, padding=0)
    operation.forward(images, weights, np.array([0.5], np.float32), out)
    assert_array_equal(out[0, :, :, 0], [[4310.5, 5421.5], [7643.5, 8754.5]])


def test_channels_are_summed_and_filters_kept_apart() -> None:
    images = np.array([1, 2], np.float32).reshape(1, 1, 1, 2)
    weights = np.array([[3, 4], [5, 6], [7, 8]], np.float32).reshape(3, 2, 1, 1)
    out = np.empty((1, 1, 1, 3), np.float32)
    operation = Convolution(images.shape, 3, kernel=1, stride=1, padding=0)
    operation.forward(images, weights, np.zeros(3, np.float32), out)
    assert_array_equal(out.ravel(), [11, 17, 23])


def test_stride_skips_and_padding_borders_with_zeros() -> None:
    images = np.arange(1.0, 17.0, dtype=np.float32).reshape(1, 4, 4, 1)
    weights = np.ones((1, 1, 3, 3), np.float32)
    out = np.empty((1, 2, 2, 1), np.float32)
    operation = Convolution(images.shape, 1, kernel=3, stride=2, padding=1)
    operation.forward(images, weights, np.zeros(1, np.float32), out)
    # Rows 0-1 and 1-3 of the image, columns 0-1 and 1-3.
    assert_array_equal(out[0, :, :, 0], [[14, 30], [57, 99]])


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_equal_finite_differences(
    shape: tuple[int, ...], differences: Callable[..., np.ndarray]
) -> None:
    images, weights, bias, gradient = arrays(shape)
    operation = Convolution(images.shape, len(bias), *shape[4:])
    out = np.empty_like(gradient)

    def loss() -> float:
        operation.forward(images, weights, bias, out)
        return float((out * gradient).sum())

    images_out, weights_out, bias_out = map(np.empty_like, (images, weights, bias))
    operation.backward_data(gradient, weights, images_out)
    operation.backward_weights(images, gradient, weights_out, bias_out)
    for values, found in ((images, images_out), (weights, weights_out), (bias, bias_out)):
        assert_allclose(found, differences(loss, values), rtol=1e-8, atol=1e-8)
