from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25)
@given(data=st.data())
def test_statistics_outputs_and_gradients_follow_the_reference(
    data: st.DataObject, normalisation_contract: Callable[..., None]
) -> None:
    normalisation_contract("channels_last", data.draw)
