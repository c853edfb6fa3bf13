from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.activation import Activation
from vectorized_ops.errors import OperationError


@settings(max_examples=40)
@given(data=st.data())
def test_activation_functions_are_near_the_reference(
    data: st.DataObject,
    activation_contract: Callable[..., None],
) -> None:
    activation_contract("channels_last", data.draw)


@pytest.mark.parametrize("size", [1, 16])
def test_gradient_of_hard_swish_at_its_corners_and_at_a_nan(size: int) -> None:
    inputs = np.repeat(np.array([-3, 3, np.nan], np.float32), size)
    found = np.empty_like(inputs)
    Activation("hard_swish").backward(np.ones_like(inputs), inputs, found)
    np.testing.assert_array_equal(found, np.repeat([0, 1, np.nan], size))


def test_unknown_function_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperationError, match="'swish': expected one of gelu"):
        Activation("swish")
