from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.affine import Affine
from vectorized_ops.errors import OperationError


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, affine_contract: Callable[..., None]
) -> None:
    affine_contract("channels_last", data.draw)


@pytest.mark.parametrize(("factor", "offset"), [(np.nan, 0.0), (1.0, np.inf)])
def test_numbers_that_are_not_finite_are_refused(factor: float, offset: float) -> None:
    with pytest.raises(OperationError, match=f"factor {factor} and offset {offset}"):
        Affine(factor, offset)
