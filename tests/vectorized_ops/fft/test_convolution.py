from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.fft.convolution import Convolution, _next_length
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.convolution import Convolution as Reference
from vectorized_ops.shapes import ConvolutionShape


def _equal(found: AnyArray, expected: AnyArray) -> None:
    """Up to an error of the largest value: a transform mixes all values of a map."""
    assert_allclose(found, expected, rtol=0, atol=1e-5 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(2, 9, 7, 3, 5, (3, 3), padding=(1, 1)),
        ConvolutionShape(3, 12, 11, 4, 6, (5, 3), padding=(2, 0), groups=2),
        ConvolutionShape(2, 23, 23, 3, 8, (11, 11), (4, 4)),
        ConvolutionShape(1, 13, 10, 6, 6, (3, 2), (2, 3), (3, 1), (2, 4), 3),
        ConvolutionShape(4, 6, 6, 5, 7, (1, 1), (2, 2)),
        ConvolutionShape(2, 1, 1, 3, 2, (1, 1)),
    ],
    ids=str,
)
def test_all_directions_equal_the_reference(shape: ConvolutionShape) -> None:
    rng = np.random.default_rng(0)
    images, gradient, weights, before = (
        rng.standard_normal(size).astype(np.float32)
        for size in (shape.inputs, shape.outputs, shape.weights, shape.inputs)
    )
    bias = rng.standard_normal(shape.filters).astype(np.float32)
    results = []
    for kind in (Reference, Convolution):
        made = kind(shape)
        plain, rectified = np.empty_like(gradient), np.empty_like(gradient)
        made.forward(images, weights, None, plain)
        made.forward(images, weights, bias, rectified, relu=True)
        written, added = np.empty_like(images), before.copy()
        made.backward_data(gradient, weights, written)
        made.backward_data(gradient, weights, added, add=True, mask=images)
        weights_out, bias_out = np.empty_like(weights), np.empty_like(bias)
        made.backward_weights(images, gradient, weights_out, bias_out)
        results.append((plain, rectified, written, added, weights_out, bias_out))
    for expected, found in zip(*results, strict=True):
        _equal(found, expected)


@pytest.mark.parametrize(("least", "length"), [(1, 1), (2, 2), (7, 8), (31, 32), (97, 100)])
def test_lengths_have_small_factors(least: int, length: int) -> None:
    assert _next_length(least) == length
