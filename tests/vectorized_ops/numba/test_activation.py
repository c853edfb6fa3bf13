from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.activation import Activation

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=40)
@given(data=st.data())
def test_activation_functions_are_near_the_reference(
    data: st.DataObject, activation_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        activation_contract("numba", data.draw)


def test_unknown_function_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperationError, match="'swish': expected one of gelu"):
        Activation("swish")
