from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.reference.layer_normalisation import LayerNormalisation


@settings(max_examples=15)
@given(data=st.data())
def test_values_and_gradients_follow_the_reference(
    data: st.DataObject, layer_normalisation_contract: Callable[..., None]
) -> None:
    layer_normalisation_contract("reference", data.draw)


def test_channels_of_a_pixel_have_mean_0_and_variance_1_before_scale_and_shift() -> None:
    values = np.random.default_rng(0).normal(5, 3, (2, 3, 2, 50))
    out = np.empty_like(values)
    LayerNormalisation(1e-12).forward(values, np.full(50, 2.0), np.full(50, -1.0), out)
    assert_allclose(out.mean(axis=-1), -1)
    assert_allclose(out.var(axis=-1), 4)


@pytest.mark.parametrize("shape", [(2, 3, 2, 4), (3, 4)])
def test_gradients_equal_finite_differences(
    shape: tuple[int, ...], gradients_agree: Callable[..., None]
) -> None:
    rng = np.random.default_rng(0)
    values, gradient = (rng.normal(size=shape) for _ in range(2))
    scale, shift = (rng.normal(size=4) for _ in range(2))
    out, back, sums = np.empty(shape), np.empty(shape), (np.empty(4), np.empty(4))
    operation = LayerNormalisation(0.1)

    def forward() -> np.ndarray:
        operation.forward(values, scale, shift, out)
        return out

    operation.backward(values, gradient, scale, *sums, back)
    pairs = [(values, back), (scale, sums[0]), (shift, sums[1])]
    gradients_agree(forward, gradient, pairs, step=1e-4, tolerance=1e-6)
