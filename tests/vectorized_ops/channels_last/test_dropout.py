from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.dropout import Dropout
from vectorized_ops.errors import OperationError
from vectorized_ops.reference.dropout import Dropout as Definition


@settings(max_examples=60)
@given(data=st.data())
def test_the_same_values_are_dropped_as_by_the_reference(
    data: st.DataObject, dropout_contract: Callable[..., None]
) -> None:
    dropout_contract("channels_last", data.draw)


@pytest.mark.parametrize("shape", [(1, 48), (20, 4, 6, 24), (3, 5, 5, 16)])
def test_vectors_are_numbered_as_their_values(shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.float32)
    for first in (0, 7, 2**31):
        found, expected = np.empty_like(values), np.empty_like(values)
        Dropout(0.4).forward(values, found, 5, first)
        Definition(0.4).forward(values, expected, 5, first)
        np.testing.assert_array_equal(found, expected)


def test_rate_of_all_is_refused() -> None:
    with pytest.raises(OperationError, match="rate 1"):
        Dropout(1.0)
