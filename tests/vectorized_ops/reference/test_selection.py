from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.reference.selection import ChannelSelection


@settings(max_examples=15)
@given(data=st.data())
def test_selections_and_gradients_equal_the_reference(
    data: st.DataObject, channel_selection_contract: Callable[..., None]
) -> None:
    channel_selection_contract("reference", data.draw)


def test_channels_come_in_the_order_in_which_they_were_chosen() -> None:
    values, out = np.arange(4.0)[None], np.empty((1, 3))
    ChannelSelection([3, 0, 1]).forward(values, out)
    assert_array_equal(out, [[3, 0, 1]])


def test_gradients_equal_finite_differences(gradients_agree: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    values, gradient = rng.normal(size=(2, 3, 2, 4)), rng.normal(size=(2, 3, 2, 3))
    out, back = np.empty_like(gradient), np.empty_like(values)
    operation = ChannelSelection([2, 0, 1])

    def forward() -> np.ndarray:
        operation.forward(values, out)
        return out

    operation.backward(gradient, back)
    gradients_agree(forward, gradient, [(values, back)])
