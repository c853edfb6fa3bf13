from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25)
@given(data=st.data())
def test_sums_equal_the_reference(
    data: st.DataObject, addition_contract: Callable[..., None]
) -> None:
    addition_contract("channels_last", data.draw)
