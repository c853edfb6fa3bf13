from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.padding import Padding


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, padding_contract: Callable[..., None]
) -> None:
    padding_contract("reference", data.draw)


def test_sides_below_0_are_refused() -> None:
    with pytest.raises(OperationError, match=r"padding by \(0, -1, 0, 0\)"):
        Padding((0, -1, 0, 0))


def test_padded_maps_are_those_of_pytorch() -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    out, back = np.empty((2, 6, 7, 5), np.float32), np.empty_like(values)
    operation = Padding((1, 2, 3, 0), 7.0)
    operation.forward(values, out)
    given = torch.from_numpy(values).permute(0, 3, 1, 2)
    expected = torch.nn.functional.pad(given, (3, 0, 1, 2), value=7.0)
    assert_array_equal(out, expected.permute(0, 2, 3, 1))
    operation.backward(out, back)
    assert_array_equal(back, values)
