from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.reference import arrays


@settings(max_examples=25)
@given(data=st.data())
def test_arrays_take_images_and_flatten_into_any_others(
    data: st.DataObject,
    arrays_contract: Callable[..., None],
    flattening_contract: Callable[..., None],
) -> None:
    arrays_contract("reference", data.draw)
    flattening_contract("reference", data.draw)


def test_vectors_count_channels_then_lines_then_pixels_and_go_back() -> None:
    images = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    vectors, back = np.empty((1, 8), np.float32), np.empty_like(images)
    arrays.flatten(images, vectors)
    assert_array_equal(vectors, [[0, 2, 4, 6, 1, 3, 5, 7]])
    arrays.unflatten(vectors, back)
    assert_array_equal(back, images)
    arrays.unflatten(vectors, back, add=True, mask=images - 3)
    assert_array_equal(back.ravel(), [0, 0, 0, 0, 8, 10, 12, 14])


def test_any_number_of_threads_is_taken_note_of() -> None:
    arrays.use_threads(4)
