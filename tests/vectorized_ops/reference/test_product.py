from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.reference.product import ChannelProduct


@settings(max_examples=15)
@given(data=st.data())
def test_products_and_gradients_equal_the_reference(
    data: st.DataObject, channel_product_contract: Callable[..., None]
) -> None:
    channel_product_contract("reference", data.draw)


def test_gradients_equal_finite_differences(gradients_agree: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    maps, gradient = (rng.normal(size=(2, 3, 2, 4)) for _ in range(2))
    factors, out = rng.normal(size=(2, 4)), np.empty((2, 3, 2, 4))
    back, slopes = np.empty_like(out), np.empty((2, 4))
    operation = ChannelProduct()

    def forward() -> np.ndarray:
        operation.forward(maps, factors, out)
        return out

    operation.backward_maps(gradient, factors, back)
    operation.backward_factors(gradient, maps, slopes)
    gradients_agree(forward, gradient, [(maps, back), (factors, slopes)])
