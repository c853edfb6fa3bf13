from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.onednn.convolution import Convolution
from vectorized_ops.reference.convolution import Convolution as ReferenceConvolution


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, convolution_contract: Callable[..., None]
) -> None:
    convolution_contract("onednn", data.draw)


def test_padding_may_be_larger_than_the_kernel() -> None:
    images = np.arange(1.0, 10.0, dtype=np.float32).reshape(1, 3, 3, 1)
    weights, bias = np.full((1, 1, 1, 1), 2, np.float32), np.zeros(1, np.float32)
    out, expected = (np.full((1, 7, 7, 1), 99, np.float32) for _ in range(2))
    Convolution(images.shape, 1, kernel=1, stride=1, padding=2).forward(images, weights, bias, out)
    reference = ReferenceConvolution(images.shape, 1, kernel=1, stride=1, padding=2)
    reference.forward(images, weights, bias, expected)
    np.testing.assert_array_equal(out, expected)
    assert out.sum() == 2 * images.sum()
