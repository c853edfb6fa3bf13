"""Where images, labels and key lie in a slot."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from knltrain.data.dataset import Dataset
from knltrain.input.batch_shape import BatchShape, rounded_up


@pytest.mark.parametrize(("label_shape", "kind"), [((), np.int64), ((7,), np.float32)])
def test_a_slot_holds_the_arrays_of_a_batch_apart(label_shape: tuple[int, ...], kind: type) -> None:
    shape = BatchShape(3, (2, 5, 1), label_shape)
    memory = bytearray(shape.bytes)
    batch = shape.batch_in(memoryview(memory))
    assert batch.images_nhwc.shape == (3, 2, 5, 1)
    assert (batch.labels.shape, batch.labels.dtype) == ((3, *label_shape), kind)
    arrays = (batch.images_nhwc, batch.labels, batch.key)
    for number, array in enumerate(arrays, start=1):
        array.fill(number)
    for number, array in enumerate(arrays, start=1):
        assert (array == number).all()
        assert array.ctypes.data % array.itemsize == 0
    assert np.count_nonzero(np.frombuffer(memory, np.uint8)) > 0


def test_a_slot_is_whole_pages() -> None:
    assert BatchShape(3, (2, 5, 1)).bytes == mmap.PAGESIZE
    assert BatchShape(1, (32, 32, 1)).bytes == 2 * mmap.PAGESIZE  # the labels take one more
    assert (rounded_up(64, 64), rounded_up(65, 64), rounded_up(0, 64)) == (64, 128, 0)


def test_shape_follows_from_the_images(small_dataset: Dataset) -> None:
    assert BatchShape.of(small_dataset.train, 8) == BatchShape(8, (6, 5, 3), ())
