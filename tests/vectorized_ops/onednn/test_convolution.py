from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.onednn.convolution import Convolution
from vectorized_ops.shapes import ConvolutionShape


@settings(max_examples=25)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, convolution_contract: Callable[..., None]
) -> None:
    convolution_contract("onednn", data.draw)


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(12, 16, 1, 5, 5, (5, 1), (2, 2), (0, 1), (2, 2)),
        ConvolutionShape(5, 8, 1, 18, 6, (3, 2), (3, 2), (2, 5), (2, 2), 2),
        ConvolutionShape(12, 1, 5, 6, 6, (2, 1), (3, 2), (5, 1), (3, 2)),
    ],
)
def test_windows_that_all_lie_in_the_padding_give_the_bias_and_no_gradient(
    shape: ConvolutionShape,
) -> None:
    operation, rng = Convolution(shape), np.random.default_rng(0)
    images, gradient, weights = (
        rng.standard_normal(size).astype(np.float32)
        for size in (shape.inputs, shape.outputs, shape.weights)
    )
    bias = rng.standard_normal(shape.filters).astype(np.float32)
    out, back = np.empty_like(gradient), np.ones_like(images)
    operation.forward(images, weights, bias, out)
    operation.backward_data(gradient, weights, back)
    weights_out, bias_out = np.ones_like(weights), np.empty_like(bias)
    operation.backward_weights(images, gradient, weights_out, bias_out)
    assert_array_equal(out, np.broadcast_to(bias, shape.outputs))
    assert not back.any()
    assert not weights_out.any()
    assert_allclose(bias_out, gradient.sum(axis=(0, 1, 2)), rtol=1e-5)


def test_activations_may_be_of_bfloat16() -> None:
    shape, rng = ConvolutionShape(4, 6, 5, 8, 16, (3, 3), padding=(1, 1)), np.random.default_rng(0)
    images, gradient, weights = (
        rng.integers(-3, 4, size).astype(np.float32)
        for size in (shape.inputs, shape.outputs, shape.weights)
    )
    results = []
    for kept in (np.asarray, rounded):
        operation, given = Convolution(shape), [kept(each) for each in (images, gradient)]
        out, back = np.empty_like(given[1]), np.empty_like(given[0])
        weights_out, bias_out = np.empty_like(weights), np.empty(shape.filters, np.float32)
        operation.forward(given[0], weights, np.ones_like(bias_out), out)
        operation.backward_data(given[1], weights, back)
        operation.backward_weights(*given, weights_out, bias_out)
        results.append([widened(out), widened(back), weights_out, bias_out])
    for found, expected in zip(results[1], results[0], strict=True):
        assert_allclose(found, expected, rtol=2**-7)
