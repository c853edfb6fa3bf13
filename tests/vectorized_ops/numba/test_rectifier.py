from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.rectifier import Rectifier

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, relu_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        relu_contract("numba", data.draw)


@settings(max_examples=40)
@given(data=st.data())
def test_any_slope_and_ceiling_equal_the_reference(
    data: st.DataObject, rectifier_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        rectifier_contract("numba", data.draw)


def test_slope_that_hides_the_sign_of_the_inputs_is_refused() -> None:
    with pytest.raises(OperationError, match=r"slope -0\.1 .*slope >= 0"):
        Rectifier(slope=-0.1)
