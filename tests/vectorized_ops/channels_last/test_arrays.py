from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last import arrays


@settings(max_examples=25)
@given(data=st.data())
def test_arrays_take_images_and_flatten_channel_by_channel(
    data: st.DataObject,
    arrays_contract: Callable[..., None],
    flattening_contract: Callable[..., None],
) -> None:
    arrays_contract("channels_last", data.draw)
    flattening_contract("channels_last", data.draw)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (3, 1), (20, 9)])
def test_arrays_begin_at_cache_lines_and_have_no_gaps(shape: tuple[int, ...], dtype: type) -> None:
    array = arrays.activations(shape, dtype)
    assert array.ctypes.data % 64 == 0
    assert array.flags.c_contiguous
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
