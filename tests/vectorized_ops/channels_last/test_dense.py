from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.dense import Dense
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import aligned_zeros


@settings(max_examples=40)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, dense_contract: Callable[..., None]
) -> None:
    dense_contract("channels_last", data.draw)


def test_operations_share_scratch_memory_whatever_it_held() -> None:
    rng, operations = np.random.default_rng(0), [Dense(5, 20, 7), Dense(20, 33, 40)]
    memory = aligned_zeros((max(each.scratch_size for each in operations),))
    memory[:] = np.nan
    for operation, (images, inputs, outputs) in zip(
        operations, [(5, 20, 7), (20, 33, 40)], strict=True
    ):
        operation.use_scratch(memory)
        values, weights = (
            rng.integers(-3, 4, shape).astype(np.float32)
            for shape in ((images, inputs), (outputs, inputs))
        )
        out = np.full((images, outputs), np.nan, np.float32)
        operation.forward(values, weights, None, out)
        np.testing.assert_array_equal(out, values @ weights.T)
        sums = np.full_like(weights, np.nan)
        operation.backward_weights(values, out, sums, None)
        np.testing.assert_array_equal(sums, out.T @ values)


def test_arrays_of_another_number_of_images_are_refused() -> None:
    weights, out = np.zeros((7, 20), np.float32), np.zeros((5, 7), np.float32)
    with pytest.raises(OperationError, match=r"\(4, 20\) .* expected \(5, 20\)"):
        Dense(5, 20, 7).forward(np.zeros((4, 20), np.float32), weights, None, out)
    with pytest.raises(OperationError, match="at least one of each"):
        Dense(0, 20, 7)
