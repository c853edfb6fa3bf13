from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=40)
@given(data=st.data())
def test_sums_equal_the_reference(
    data: st.DataObject,
    addition_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        addition_contract("numba", data.draw)
