from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.onednn import arrays


@pytest.fixture(autouse=True)
def torch_keeps_its_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@settings(max_examples=25)
@given(data=st.data())
def test_arrays_take_images_and_flatten_channel_by_channel(
    data: st.DataObject,
    arrays_contract: Callable[..., None],
    flattening_contract: Callable[..., None],
) -> None:
    arrays_contract("onednn", data.draw)
    flattening_contract("onednn", data.draw)


def test_images_become_a_channels_last_tensor_on_the_same_memory() -> None:
    images = arrays.activations((2, 3, 4, 5))
    seen = arrays.images_tensor(images)
    assert seen.shape == (2, 5, 3, 4)
    assert seen.is_contiguous(memory_format=torch.channels_last)
    seen[1, 4, 2, 3] = 7
    assert images[1, 2, 3, 4] == 7
    arrays.tensor(images)[0, 0, 0, 0] = 8
    assert images[0, 0, 0, 0] == np.float32(8)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_those_of_pytorch(threads: int) -> None:
    arrays.use_threads(threads)
    assert torch.get_num_threads() == threads
