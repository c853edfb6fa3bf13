from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.layout import zeros_images_last
from vectorized_ops.numba.layer_normalisation import LayerNormalisation
from vectorized_ops.reference import layer_normalisation as reference

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=40)
@given(data=st.data())
def test_values_and_gradients_follow_the_reference(
    data: st.DataObject, layer_normalisation_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        layer_normalisation_contract("numba", data.draw)


def test_sums_over_many_pixels_are_those_of_float64() -> None:
    """More than go into doubles at once, by each thread."""
    shape, rng = (16, 20, 30, 3), np.random.default_rng(0)
    values, gradient = (zeros_images_last(shape) for _ in range(2))
    values[...], gradient[...] = rng.normal(size=shape), rng.normal(1, 1, shape)
    scale, found, expected = np.ones(3, np.float32), np.empty((2, 3), np.float32), np.empty((2, 3))
    LayerNormalisation(0.1).backward(values, gradient, scale, *found, zeros_images_last(shape))
    wide = (each.astype(np.float64) for each in (values, gradient))
    reference.LayerNormalisation(0.1).backward(*wide, scale, *expected, np.empty(shape))
    assert_allclose(found, expected, rtol=1e-5, atol=1e-2)
