from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.dropout import Dropout


@settings(max_examples=60)
@given(data=st.data())
def test_the_values_dropped_are_those_of_the_reference(
    data: st.DataObject,
    dropout_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        dropout_contract("numba", data.draw)


def test_rate_of_one_is_refused() -> None:
    with pytest.raises(OperationError, match=r"rate 1\.0 .*rate < 1"):
        Dropout(1.0)
