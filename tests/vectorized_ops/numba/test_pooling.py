from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.pooling import MaxPooling


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_maxima_places_and_gradients_equal_the_reference_for_any_shape(
    data: st.DataObject, pooling_contract: Callable[..., None]
) -> None:
    pooling_contract("numba", data.draw)


def test_what_is_not_a_number_is_carried_on(
    not_numbers_in_pooling_contract: Callable[..., None],
) -> None:
    not_numbers_in_pooling_contract("numba")


def test_window_with_more_places_than_a_byte_can_name_is_refused() -> None:
    with pytest.raises(OperationError, match=r"17x17 pixels .* at most 16x16"):
        MaxPooling(17, 1)
