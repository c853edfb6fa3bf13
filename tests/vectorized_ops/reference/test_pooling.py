from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.pooling import MaxPooling


def pooled(values: list[list[float]], kernel: int, stride: int) -> list[list[list[float]]]:
    """Maxima and places of one single-channel image."""
    images = np.array(values, np.float32)[None, :, :, None]
    lines, pixels = ((side - kernel) // stride + 1 for side in images.shape[1:3])
    out = np.empty((1, lines, pixels, 1), np.float32)
    which = np.empty(out.shape, np.uint8)
    MaxPooling(kernel, stride).forward(images, out, which)
    return [array[0, :, :, 0].tolist() for array in (out, which)]


def test_maxima_and_their_places_line_by_line() -> None:
    values = [[1, 2, 5, 0], [4, 3, 0, 0], [0, 0, 7, 8], [0, -1, 9, 6]]
    assert pooled(values, 2, 2) == [[[4, 5], [0, 9]], [[2, 0], [0, 2]]]


def test_pixels_that_fill_no_window_are_left_out() -> None:
    assert pooled([[1, 2, 9], [3, 4, 9], [9, 9, 9]], 2, 2) == [[[4]], [[3]]]


def test_first_of_equal_values_wins() -> None:
    assert pooled([[1, 2], [2, 2]], 2, 2) == [[[2]], [[1]]]


def test_what_is_not_a_number_is_carried_on(
    not_numbers_in_pooling_contract: Callable[..., None],
) -> None:
    not_numbers_in_pooling_contract("reference")


def test_gradient_of_a_pixel_is_the_sum_over_the_windows_that_it_won() -> None:
    images = np.array([[1, 5, 2], [0, 3, 4]], np.float32)[None, :, :, None]
    out, which = np.empty((1, 1, 2, 1), np.float32), np.empty((1, 1, 2, 1), np.uint8)
    operation = MaxPooling(2, 1)
    operation.forward(images, out, which)
    gradient = np.array([10, 20], np.float32).reshape(1, 1, 2, 1)
    images_out = np.full_like(images, 99)
    operation.backward(gradient, which, images_out)
    assert_array_equal(images_out[0, :, :, 0], [[0, 30, 0], [0, 0, 0]])


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (2, 3), (3, 1), (1, 1)])
def test_gradient_equals_finite_differences(
    kernel: int, stride: int, differences: Callable[..., np.ndarray]
) -> None:
    rng = np.random.default_rng(kernel)
    images = rng.permutation(2 * 7 * 6 * 2).reshape(2, 7, 6, 2) * 0.1  # no two are near each other
    lines, pixels = (7 - kernel) // stride + 1, (6 - kernel) // stride + 1
    gradient = rng.standard_normal((2, lines, pixels, 2))
    out, which = np.empty_like(gradient), np.empty(gradient.shape, np.uint8)
    operation = MaxPooling(kernel, stride)

    def loss() -> float:
        operation.forward(images, out, which)
        return float((out * gradient).sum())

    expected = differences(loss, images)
    images_out = np.full_like(images, 99)
    operation.backward(gradient, which, images_out)
    assert_allclose(images_out, expected, rtol=1e-8, atol=1e-8)


def test_window_with_more_places_than_a_byte_can_name_is_refused() -> None:
    images = np.zeros((1, 16, 16, 1), np.float32)
    images[0, 15, 15] = 1
    out, which = np.empty((1, 1, 1, 1), np.float32), np.empty((1, 1, 1, 1), np.uint8)
    MaxPooling(16, 1).forward(images, out, which)
    assert which.item() == 255
    with pytest.raises(OperationError, match=r"17x17 pixels .* at most 16x16"):
        MaxPooling(17, 1)
