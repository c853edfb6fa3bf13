from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.reference.parametric_rectifier import ParametricRectifier


@settings(max_examples=25)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, parametric_rectifier_contract: Callable[..., None]
) -> None:
    parametric_rectifier_contract("reference", data.draw)


@pytest.mark.parametrize("count", [1, 4])
def test_values_and_gradients_are_those_of_pytorch(count: int) -> None:
    rng = np.random.default_rng(count)
    values, gradient = rng.standard_normal((2, 3, 2, 5, 4))
    slopes, sums = rng.uniform(-1, 1, count), np.empty(count)
    out, back = np.empty_like(values), np.empty_like(values)
    operation = ParametricRectifier()
    operation.forward(values, slopes, out)
    operation.backward(values, gradient, slopes, sums, back)
    given = torch.from_numpy(values).permute(0, 3, 1, 2).requires_grad_()
    factors = torch.from_numpy(slopes).requires_grad_()
    expected = torch.nn.functional.prelu(given, factors)
    expected.backward(torch.from_numpy(gradient).permute(0, 3, 1, 2))
    assert given.grad is not None
    assert factors.grad is not None
    assert_allclose(out, expected.detach().permute(0, 2, 3, 1), rtol=1e-12)
    assert_allclose(back, given.grad.permute(0, 2, 3, 1), rtol=1e-12)
    assert_allclose(sums, factors.grad, rtol=1e-12)
