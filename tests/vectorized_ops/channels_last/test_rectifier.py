from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.rectifier import Rectifier
from vectorized_ops.errors import OperationError


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject,
    relu_contract: Callable[..., None],
    rectifier_contract: Callable[..., None],
) -> None:
    relu_contract("channels_last", data.draw)
    rectifier_contract("channels_last", data.draw)


def test_rectifier_whose_outputs_do_not_tell_their_inputs_is_refused() -> None:
    with pytest.raises(OperationError, match="slope -1 and ceiling 6 was asked for"):
        Rectifier(-1, 6)
