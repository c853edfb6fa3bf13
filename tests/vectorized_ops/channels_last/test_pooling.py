from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.pooling import MaxPooling
from vectorized_ops.errors import OperationError
from vectorized_ops.shapes import PoolingShape


@settings(max_examples=25)
@given(data=st.data())
def test_maxima_places_and_gradients_equal_the_reference_for_any_shape(
    data: st.DataObject, pooling_contract: Callable[..., None]
) -> None:
    pooling_contract("channels_last", data.draw)


@settings(max_examples=25)
@given(data=st.data())
def test_means_follow_the_reference_for_any_shape(
    data: st.DataObject,
    average_pooling_contract: Callable[..., None],
    global_average_pooling_contract: Callable[..., None],
) -> None:
    average_pooling_contract("channels_last", data.draw)
    global_average_pooling_contract("channels_last", data.draw)


def test_what_is_not_a_number_is_carried_on(
    not_numbers_in_pooling_contract: Callable[..., None],
) -> None:
    not_numbers_in_pooling_contract("channels_last")


def test_window_with_more_places_than_a_byte_can_name_is_refused() -> None:
    with pytest.raises(OperationError, match=r"17x16 pixels .* at most 256 pixels"):
        MaxPooling(PoolingShape(20, 20, (17, 16), (1, 1)))
