from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.lrn import LocalResponseNormalisation


@pytest.mark.parametrize(("size", "channels"), [(1, 3), (3, 5), (5, 7), (5, 2)])
def test_outputs_are_those_of_pytorch_and_gradients_those_of_differences(
    size: int, channels: int, gradients_agree: Callable[..., None]
) -> None:
    rng = np.random.default_rng(size)
    values, gradient = rng.standard_normal((2, 2, 2, 3, channels))
    operation = LocalResponseNormalisation(size, alpha=0.8, beta=0.75, bias=2.0)
    out, back = np.empty_like(values), np.empty_like(values)

    def forward() -> np.ndarray:
        operation.forward(values, out)
        return out

    expected = torch.nn.functional.local_response_norm(
        torch.from_numpy(values).permute(0, 3, 1, 2), size, alpha=0.8, beta=0.75, k=2.0
    )
    assert_allclose(forward(), expected.permute(0, 2, 3, 1), rtol=1e-12)
    operation.backward(values, gradient, back)
    gradients_agree(forward, gradient, [(values, back)], step=1e-5)


def test_hand_computed_channel_sees_its_neighbours_on_both_sides() -> None:
    values = np.array([1, 2, 3], np.float32).reshape(1, 1, 1, 3)
    out = np.empty_like(values)
    LocalResponseNormalisation(3, alpha=3.0, beta=1.0, bias=1.0).forward(values, out)
    assert_allclose(out.ravel(), [1 / 6, 2 / 15, 3 / 14], rtol=1e-6)


@settings(max_examples=15)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, local_response_contract: Any) -> None:
    local_response_contract("reference", data.draw)


@pytest.mark.parametrize(("size", "way_out"), [(4, "use 3 or 5"), (0, "use 1 or 3")])
def test_window_without_a_middle_is_refused(size: int, way_out: str) -> None:
    with pytest.raises(OperationError, match=f"over {size} channels .* an odd number.*{way_out}"):
        LocalResponseNormalisation(size, 1.0, 0.75, 1.0)
