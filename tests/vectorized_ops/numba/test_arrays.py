from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba import arrays
from vectorized_ops.numba.compiler import SETTINGS


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_arrays_take_images_and_flatten_channel_by_channel(
    data: st.DataObject, arrays_contract: Callable[..., None]
) -> None:
    arrays_contract("numba", data.draw)


def test_images_are_padded_to_whole_vectors_and_flattened_in_place() -> None:
    images = arrays.activations((17, 2, 3, 4))
    assert images.shape == (32, 2, 3, 4)
    assert arrays.activations((3, 2), np.uint8).dtype == np.uint8
    assert np.shares_memory(arrays.flatten(images), images)


@pytest.mark.parametrize("shape", [(17, 2, 3, 4), (16, 2, 3, 5), (16, 3, 2, 4)])
def test_images_that_do_not_fit_are_refused_not_written_past_the_end(
    shape: tuple[int, ...],
) -> None:
    out = arrays.activations((16, 2, 3, 4))
    with pytest.raises(OperationError, match=r"\(2, 3, 4\) per image and at most 16 images"):
        arrays.load_images(np.ones(shape, np.float32), out)
    assert not out.any()


def test_threads_are_numbas_and_more_than_it_has_are_refused() -> None:
    arrays.use_threads(1)
    assert numba.get_num_threads() == 1
    most = SETTINGS.NUMBA_NUM_THREADS
    arrays.use_threads(most)
    assert numba.get_num_threads() == most
    with pytest.raises(OperationError, match=f"started with {most}: set NUMBA_NUM_THREADS"):
        arrays.use_threads(most + 1)
