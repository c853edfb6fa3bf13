from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_follow_the_reference(
    data: st.DataObject, layer_normalisation_contract: Callable[..., None]
) -> None:
    layer_normalisation_contract("onednn", data.draw)
