from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.within_channel import WithinChannelNormalisation


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, within_channel_contract: Callable[..., None]
) -> None:
    within_channel_contract("reference", data.draw)


def test_window_without_a_middle_is_refused() -> None:
    with pytest.raises(OperationError, match=r"4 x 4 pixels .* odd"):
        WithinChannelNormalisation(4, 1e-4, 0.75)


@pytest.mark.parametrize(("side", "beta"), [(1, 0.75), (3, 0.75), (5, 0.6)])
def test_outputs_are_caffes_and_gradients_those_of_differences(
    side: int, beta: float, gradients_agree: Callable[..., None]
) -> None:
    """Caffe's AVE pooling of the squares with padding (side - 1) / 2; its k is not read."""
    rng = np.random.default_rng(side)
    values, gradient = rng.standard_normal((2, 2, 4, 3, 2))
    operation = WithinChannelNormalisation(side, 0.8, beta)
    out, back = np.empty_like(values), np.empty_like(values)

    def forward() -> np.ndarray:
        operation.forward(values, out)
        return out

    squares = torch.from_numpy(values).permute(0, 3, 1, 2).square()
    means = torch.nn.functional.avg_pool2d(squares, side, 1, side // 2)
    expected = values * (1 + 0.8 * means.permute(0, 2, 3, 1).numpy()) ** -beta
    assert_allclose(forward(), expected, rtol=1e-12)
    operation.backward(values, gradient, back)
    gradients_agree(forward, gradient, [(values, back)], step=1e-5)
