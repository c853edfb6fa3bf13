from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    IMAGE_LANES,
    aligned_zeros,
    images_last,
    padded_images,
    zeros_images_last,
)


@given(st.integers(1, 10_000))
def test_images_are_rounded_up_to_whole_vectors(images: int) -> None:
    padded = padded_images(images)
    assert padded % IMAGE_LANES == 0
    assert images <= padded < images + IMAGE_LANES


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (16, 2, 3, 4)])
def test_zeros_begin_at_a_cache_line(shape: tuple[int, ...], dtype: type) -> None:
    zeros = aligned_zeros(shape, dtype)
    assert zeros.ctypes.data % 64 == 0
    assert (zeros.shape, zeros.dtype) == (shape, np.dtype(dtype))
    assert zeros.flags.c_contiguous
    assert not zeros.any()


def test_images_run_fastest_in_memory_then_pixels_lines_and_channels() -> None:
    images = zeros_images_last((16, 3, 5, 2))
    assert images.shape == (16, 3, 5, 2)
    assert [stride // 4 for stride in images.strides] == [1, 5 * 16, 16, 3 * 5 * 16]
    assert images.ctypes.data % 64 == 0
    vectors = zeros_images_last((32, 7), np.uint8)
    assert (vectors.shape, vectors.strides) == ((32, 7), (1, 32))


def test_memory_order_is_a_view_on_the_same_values() -> None:
    images = zeros_images_last((16, 3, 5, 2))
    images[7, 2, 4, 1] = 9
    memory = images_last(images)
    assert memory.shape == (2, 3, 5, 16)
    assert memory[1, 2, 4, 7] == 9
    assert np.shares_memory(memory, images)
    assert_array_equal(images_last(zeros_images_last((16, 3))), np.zeros((3, 16)))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((16, 3, 3, 2), np.float32),
        np.zeros((16, 5), np.float32),
        zeros_images_last((32, 3, 3, 2))[:16],
        zeros_images_last((32, 3, 3, 2))[::2],
        zeros_images_last((15, 4)),
        zeros_images_last((16, 3, 4, 2))[:, :, 1:],
    ],
    ids=["C order", "vectors in C order", "first images", "every other", "15 images", "cut"],
)
def test_other_memory_orders_are_refused_with_the_way_out(array: np.ndarray) -> None:
    with pytest.raises(
        OperationError, match=r"multiple of 16 images.*vectorized_ops\.layout"
    ) as no:
        images_last(array)
    assert str(array.shape) in str(no.value)
