from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.onednn.padding import Padding


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, padding_contract: Callable[..., None]
) -> None:
    padding_contract("onednn", data.draw)


def test_sides_below_0_are_refused() -> None:
    with pytest.raises(OperationError, match=r"padding by \(0, -1, 0, 0\)"):
        Padding((0, -1, 0, 0))
