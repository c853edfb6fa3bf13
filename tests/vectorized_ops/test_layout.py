from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    images_last_in,
    images_last_size,
    padded_images,
    pixels,
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


def test_images_run_fastest_in_memory_then_channels_pixels_and_lines() -> None:
    images = zeros_images_last((16, 3, 5, 2))
    assert images.shape == (16, 3, 5, 2)
    assert [stride // 4 for stride in images.strides] == [1, 5 * 2 * 16, 2 * 16, 16]
    assert images.ctypes.data % 64 == 0
    vectors = zeros_images_last((32, 7), np.uint8)
    assert (vectors.shape, vectors.strides) == ((32, 7), (1, 32))


def test_memory_order_is_a_view_on_the_same_values() -> None:
    images = zeros_images_last((16, 3, 5, 2))
    images[7, 2, 4, 1] = 9
    memory = images_last(images)
    assert memory.shape == (3, 5, 2, 16)
    assert memory[2, 4, 1, 7] == 9
    assert np.shares_memory(memory, images)
    assert_array_equal(images_last(zeros_images_last((16, 3))), np.zeros((3, 16)))


@pytest.mark.parametrize("shape", [(17, 3, 5, 2), (16, 1, 1, 4), (5, 7)])
def test_arrays_lie_in_a_given_piece_of_memory_as_it_is(shape: tuple[int, ...]) -> None:
    size = images_last_size(shape)
    assert size == padded_images(shape[0]) * int(np.prod(shape[1:]))
    memory = np.arange(size + 3, dtype=np.float32)
    array = images_last_in(memory, shape)
    assert array.shape == (padded_images(shape[0]), *shape[1:])
    assert_array_equal(images_last(array).reshape(-1), memory[:size])
    assert np.shares_memory(array, memory)


@pytest.mark.parametrize(
    "memory",
    [np.zeros(95, np.float32), np.zeros((8, 12), np.float32), np.zeros(192, np.float32)[::2]],
    ids=["short", "not flat", "with gaps"],
)
def test_memory_that_cannot_hold_an_array_is_refused(memory: np.ndarray) -> None:
    with pytest.raises(OperationError, match="flat contiguous piece of at least 96 elements"):
        images_last_in(memory, (3, 1, 2, 3))


@given(
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    channels=st.integers(1, 5),
    data=st.data(),
)
def test_kernels_find_every_element_by_the_distance_of_pixels(
    height: int, width: int, channels: int, data: st.DataObject
) -> None:
    whole = zeros_images_last((16, height, width, channels))
    first = data.draw(st.integers(0, channels - 1))
    array = whole[..., first : data.draw(st.integers(first + 1, channels))]
    flat, distance = pixels(array)
    assert flat.flags.c_contiguous
    assert flat.dtype == np.float32
    for number, (n, y, x, c) in enumerate(np.ndindex(array.shape)):
        array[n, y, x, c] = number
        assert flat[(y * width + x) * distance + c * 16 + n] == number
    assert len(flat) == ((height * width - 1) * distance + array.shape[3] * 16)
    assert_array_equal(images_last(array), array.transpose(1, 2, 3, 0))


def test_vectors_are_one_pixel() -> None:
    vectors = zeros_images_last((32, 7), np.uint8)
    vectors[3, 5] = 1
    flat, distance = pixels(vectors)
    assert (flat.shape, flat.dtype, distance) == ((7 * 32,), np.uint8, 7 * 32)
    assert flat[5 * 32 + 3] == 1
    flat, distance = pixels(vectors[:, 5:])
    assert (distance, flat[3]) == (2 * 32, 1)


@pytest.mark.parametrize("look", [images_last, pixels])
@pytest.mark.parametrize(
    "array",
    [
        np.zeros((16, 3, 3, 2), np.float32),
        np.zeros((16, 5), np.float32),
        np.zeros((2, 3, 3, 16), np.float32).transpose(3, 1, 2, 0),
        zeros_images_last((32, 3, 3, 2))[:16],
        zeros_images_last((32, 3, 3, 2))[::2],
        zeros_images_last((15, 4)),
        zeros_images_last((16, 3, 4, 2))[:, :, 1:],
        zeros_images_last((16, 3, 4, 2))[:, ::2],
        zeros_images_last((16, 3, 4, 4))[..., ::2],
        np.broadcast_to(zeros_images_last((16, 1, 1, 4)), (16, 3, 3, 4)),
    ],
    ids=[
        "C order", "vectors in C order", "channels outermost", "first images", "every other",
        "15 images", "cut", "every other line", "every other channel", "one pixel for all",
    ],
)  # fmt: skip
def test_other_memory_orders_are_refused_with_the_way_out(
    array: np.ndarray, look: Callable[[np.ndarray], Any]
) -> None:
    with pytest.raises(
        OperationError, match=r"multiple of 16 images.*vectorized_ops\.layout"
    ) as no:
        look(array)
    assert str(array.shape) in str(no.value)
