from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, dense_contract: Callable[..., None]
) -> None:
    dense_contract("onednn", data.draw)
