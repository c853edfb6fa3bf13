from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.reference import arrays


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_arrays_take_images_and_flatten_channel_by_channel(
    data: st.DataObject, arrays_contract: Callable[..., None]
) -> None:
    arrays_contract("reference", data.draw)


def test_vectors_count_channels_then_lines_then_pixels() -> None:
    images = arrays.activations((1, 2, 2, 2))
    arrays.load_images(np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2), images)
    assert_array_equal(arrays.flatten(images), [[0, 2, 4, 6, 1, 3, 5, 7]])


def test_any_number_of_threads_is_taken_note_of() -> None:
    arrays.use_threads(4)
