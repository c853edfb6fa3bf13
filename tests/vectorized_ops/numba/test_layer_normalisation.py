from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from hypothesis import given, settings
from hypothesis import strategies as st

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_values_and_gradients_follow_the_reference(
    data: st.DataObject, layer_normalisation_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        layer_normalisation_contract("numba", data.draw)
