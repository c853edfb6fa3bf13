from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25)
@given(data=st.data())
def test_products_and_gradients_equal_the_reference(
    data: st.DataObject, channel_scale_contract: Callable[..., None]
) -> None:
    channel_scale_contract("onednn", data.draw)
