from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, convolution_contract: Callable[..., None]
) -> None:
    convolution_contract("onednn", data.draw)
