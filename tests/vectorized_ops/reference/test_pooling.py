from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.pooling import AveragePooling, GlobalAveragePooling, MaxPooling
from vectorized_ops.shapes import PoolingShape

SHAPES = {
    "halves": PoolingShape(6, 6, (2, 2), (2, 2)),
    "pixels left out": PoolingShape(7, 6, (2, 2), (3, 2)),
    "overlap": PoolingShape(7, 6, (3, 3), (2, 2)),
    "oblong": PoolingShape(5, 7, (1, 3), (2, 1)),
    "gaps": PoolingShape(7, 6, (2, 1), (3, 3)),
    "padding": PoolingShape(5, 6, (3, 3), (1, 1), (1, 1)),
    "ceil": PoolingShape(6, 5, (3, 2), (2, 2), ceil=True),
    "padding and ceil": PoolingShape(6, 5, (3, 2), (2, 3), (1, 1), ceil=True),
    "padding of a pixel": PoolingShape(1, 1, (3, 3), (2, 2), (1, 1)),
}


def pooled(values: list[list[float]], kernel: int, stride: int, **more: Any) -> list[Any]:
    """Maxima and places of one single-channel image."""
    images = np.array(values, np.float32)[None, :, :, None]
    shape = PoolingShape(*images.shape[1:3], (kernel, kernel), (stride, stride), **more)
    out = np.empty((1, shape.lines, shape.pixels, 1), np.float32)
    which = np.empty(out.shape, np.uint8)
    MaxPooling(shape).forward(images, out, which)
    return [array[0, :, :, 0].tolist() for array in (out, which)]


def test_maxima_and_their_places_line_by_line() -> None:
    values = [[1, 2, 5, 0], [4, 3, 0, 0], [0, 0, 7, 8], [0, -1, 9, 6]]
    assert pooled(values, 2, 2) == [[[4, 5], [0, 9]], [[2, 0], [0, 2]]]


def test_pixels_that_fill_no_window_are_left_out() -> None:
    assert pooled([[1, 2, 9], [3, 4, 9], [9, 9, 9]], 2, 2) == [[[4]], [[3]]]


def test_ceil_takes_windows_that_the_image_fills_in_part() -> None:
    values = [[1, 2, 9], [3, 4, 9], [9, 9, 9]]
    assert pooled(values, 2, 2, ceil=True) == [[[4, 9], [9, 9]], [[3, 0], [0, 0]]]


def test_padding_never_wins_not_even_over_negative_infinity() -> None:
    assert pooled([[-5, -7], [-np.inf, -np.inf]], 2, 2, padding=(1, 1)) == [
        [[-5, -7], [-np.inf, -np.inf]],
        [[3, 2], [1, 0]],
    ]


def test_first_of_equal_values_wins() -> None:
    assert pooled([[1, 2], [2, 2]], 2, 2) == [[[2]], [[1]]]


def test_what_is_not_a_number_is_carried_on(
    not_numbers_in_pooling_contract: Callable[..., None],
) -> None:
    not_numbers_in_pooling_contract("reference")


def test_gradient_of_a_pixel_is_the_sum_over_the_windows_that_it_won() -> None:
    images = np.array([[1, 5, 2], [0, 3, 4]], np.float32)[None, :, :, None]
    out, which = np.empty((1, 1, 2, 1), np.float32), np.empty((1, 1, 2, 1), np.uint8)
    operation = MaxPooling(PoolingShape(2, 3, (2, 2), (1, 1)))
    operation.forward(images, out, which)
    gradient = np.array([10, 20], np.float32).reshape(1, 1, 2, 1)
    images_out = np.full_like(images, 99)
    operation.backward(gradient, which, images_out)
    assert_array_equal(images_out[0, :, :, 0], [[0, 30, 0], [0, 0, 0]])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradient_of_maxima_equals_finite_differences(
    shape: PoolingShape, gradients_agree: Callable[..., None]
) -> None:
    rng = np.random.default_rng(0)
    # No two values are near each other.
    images = rng.permutation(4 * shape.height * shape.width) * 0.1
    images = images.reshape(2, shape.height, shape.width, 2)
    gradient = rng.standard_normal((2, shape.lines, shape.pixels, 2))
    out, which = np.empty_like(gradient), np.empty(gradient.shape, np.uint8)
    operation = MaxPooling(shape)

    def forward() -> np.ndarray:
        operation.forward(images, out, which)
        return out

    forward()
    images_out = np.full_like(images, 99)
    operation.backward(gradient, which, images_out)
    gradients_agree(forward, gradient, [(images, images_out)])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_means_and_their_gradient_are_those_of_pytorch_and_of_differences(
    shape: PoolingShape, gradients_agree: Callable[..., None]
) -> None:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, shape.height, shape.width, 2))
    gradient = rng.standard_normal((2, shape.lines, shape.pixels, 2))
    operation, out, images_out = AveragePooling(shape), np.empty_like(gradient), images.copy()

    def forward() -> np.ndarray:
        operation.forward(images, out)
        return out

    expected = torch.nn.functional.avg_pool2d(
        torch.from_numpy(images).permute(0, 3, 1, 2),
        shape.kernel, shape.stride, shape.padding, shape.ceil,
    )  # fmt: skip
    assert_allclose(forward(), expected.permute(0, 2, 3, 1), rtol=1e-12, atol=1e-12)
    operation.backward(gradient, images_out)
    gradients_agree(forward, gradient, [(images, images_out)])


def test_mean_counts_zeros_of_the_padding_but_not_what_lies_beyond() -> None:
    images = np.full((1, 3, 3, 1), 12, np.float32)
    out = np.empty((1, 2, 2, 1), np.float32)
    AveragePooling(PoolingShape(3, 3, (3, 3), (3, 3), (1, 1), ceil=True)).forward(images, out)
    # 4 pixels in a window of 9; 2 in one of 3 x 2 pixels, the last column beyond the padding.
    assert_allclose(out[0, :, :, 0], [[48 / 9, 24 / 6], [24 / 6, 12 / 4]], rtol=1e-6)


def test_mean_of_a_whole_map_and_its_gradient(gradients_agree: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    images, gradient = rng.standard_normal((2, 3, 4, 2)), rng.standard_normal((2, 2))
    operation, out, images_out = GlobalAveragePooling(), np.empty_like(gradient), images.copy()

    def forward() -> np.ndarray:
        operation.forward(images, out)
        return out

    assert_allclose(forward()[1, 0], images[1, :, :, 0].sum() / 12)
    operation.backward(gradient, images_out)
    gradients_agree(forward, gradient, [(images, images_out)])


@settings(max_examples=15)
@given(data=st.data())
def test_definitions_keep_their_own_contracts(
    data: Any,
    pooling_contract: Any,
    average_pooling_contract: Any,
    global_average_pooling_contract: Any,
) -> None:
    pooling_contract("reference", data.draw)
    average_pooling_contract("reference", data.draw)
    global_average_pooling_contract("reference", data.draw)


def test_window_with_more_places_than_a_byte_can_name_is_refused() -> None:
    images = np.zeros((1, 8, 32, 1), np.float32)
    images[0, 7, 31] = 1
    out, which = np.empty((1, 1, 1, 1), np.float32), np.empty((1, 1, 1, 1), np.uint8)
    MaxPooling(PoolingShape(8, 32, (8, 32), (1, 1))).forward(images, out, which)
    assert which.item() == 255
    with pytest.raises(OperationError, match=r"17x16 pixels .* at most 256 pixels"):
        MaxPooling(PoolingShape(20, 20, (17, 16), (1, 1)))
