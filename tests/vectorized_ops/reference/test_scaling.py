from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.reference.scaling import ChannelScale


@settings(max_examples=15)
@given(data=st.data())
def test_products_and_gradients_equal_the_reference(
    data: st.DataObject, channel_scale_contract: Callable[..., None]
) -> None:
    channel_scale_contract("reference", data.draw)


def test_gradients_equal_finite_differences(gradients_agree: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    values, gradient = (rng.normal(size=(2, 3, 2, 4)) for _ in range(2))
    scale, slopes = rng.normal(size=4), np.empty(4)
    out, back = np.empty_like(values), np.empty_like(values)
    operation = ChannelScale()

    def forward() -> np.ndarray:
        operation.forward(values, scale, out)
        return out

    operation.backward_scale(values, gradient, slopes)
    operation.backward(gradient, scale, back)
    gradients_agree(forward, gradient, [(values, back), (scale, slopes)])
