from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import zeros_images_last
from vectorized_ops.numba.product import ChannelProduct

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=40)
@given(data=st.data())
def test_products_and_gradients_equal_the_reference(
    data: st.DataObject, channel_product_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        channel_product_contract("numba", data.draw)


def test_factors_of_other_channels_or_images_are_refused() -> None:
    maps, factors = zeros_images_last((16, 2, 2, 3)), zeros_images_last((16, 4))
    with pytest.raises(OperationError, match=r"maps \(16, 2, 2, 3\) and factors \(16, 4\)"):
        ChannelProduct().forward(maps, factors, maps)
