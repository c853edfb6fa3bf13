from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.reference.convolution import Convolution
from vectorized_ops.shapes import ConvolutionShape

SHAPES = {
    "plain": ConvolutionShape(2, 4, 5, 2, 3, (3, 3)),
    "stride that skips the last pixel": ConvolutionShape(2, 5, 4, 1, 2, (2, 2), (2, 2), (1, 1)),
    "stride of the kernel": ConvolutionShape(2, 6, 7, 2, 1, (3, 3), (3, 3), (2, 2)),
    "stride beyond the kernel": ConvolutionShape(2, 5, 5, 1, 2, (1, 1), (2, 2)),
    "one pixel": ConvolutionShape(1, 1, 1, 2, 2, (1, 1)),
    "windows in the padding": ConvolutionShape(2, 2, 3, 1, 1, (2, 2), (2, 1), (4, 3)),
    "oblong": ConvolutionShape(1, 5, 4, 2, 2, (1, 3), (2, 1), (0, 2)),
    "dilation": ConvolutionShape(1, 6, 7, 2, 2, (2, 3), (1, 2), (1, 0), dilation=(3, 2)),
    "groups": ConvolutionShape(2, 3, 3, 4, 6, (2, 2), groups=2),
    "depthwise": ConvolutionShape(2, 3, 4, 3, 6, (3, 3), padding=(1, 1), groups=3),
}


def arrays(shape: ConvolutionShape) -> list[np.ndarray]:
    """Images, weights, bias and a gradient of the output, in float64."""
    rng = np.random.default_rng(5)
    sizes = shape.inputs, shape.weights, (shape.filters,), shape.outputs
    return [rng.standard_normal(size) for size in sizes]


def test_windows_are_correlated_not_flipped_and_bias_is_added() -> None:
    images = np.arange(9.0, dtype=np.float32).reshape(1, 3, 3, 1)
    weights = np.array([[[[1, 10], [100, 1000]]]], np.float32)
    out = np.empty((1, 2, 2, 1), np.float32)
    operation = Convolution(ConvolutionShape(1, 3, 3, 1, 1, (2, 2)))
    operation.forward(images, weights, np.array([0.5], np.float32), out)
    assert_array_equal(out[0, :, :, 0], [[4310.5, 5421.5], [7643.5, 8754.5]])
    operation.forward(images, weights, None, out)
    assert_array_equal(out[0, :, :, 0], [[4310, 5421], [7643, 8754]])


def test_channels_are_summed_and_filters_kept_apart() -> None:
    images = np.array([1, 2], np.float32).reshape(1, 1, 1, 2)
    weights = np.array([[3, 4], [5, 6], [7, 8]], np.float32).reshape(3, 2, 1, 1)
    out = np.empty((1, 1, 1, 3), np.float32)
    Convolution(ConvolutionShape(1, 1, 1, 2, 3, (1, 1))).forward(images, weights, None, out)
    assert_array_equal(out.ravel(), [11, 17, 23])


def test_groups_see_their_own_channels_only() -> None:
    images = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4)
    weights = np.array([[1, 10], [2, 20]], np.float32).reshape(2, 2, 1, 1)
    out = np.empty((1, 1, 1, 2), np.float32)
    shape = ConvolutionShape(1, 1, 1, 4, 2, (1, 1), groups=2)
    Convolution(shape).forward(images, weights, None, out)
    assert_array_equal(out.ravel(), [21, 86])


def test_stride_skips_and_padding_borders_with_zeros() -> None:
    images = np.arange(1.0, 17.0, dtype=np.float32).reshape(1, 4, 4, 1)
    weights = np.ones((1, 1, 3, 3), np.float32)
    out = np.empty((1, 2, 2, 1), np.float32)
    operation = Convolution(ConvolutionShape(1, 4, 4, 1, 1, (3, 3), (2, 2), (1, 1)))
    operation.forward(images, weights, None, out)
    # Rows 0-1 and 1-3 of the image, columns 0-1 and 1-3.
    assert_array_equal(out[0, :, :, 0], [[14, 30], [57, 99]])


def test_relu_keeps_what_is_not_a_number() -> None:
    images = np.array([-1, 2, np.nan], np.float32).reshape(1, 1, 3, 1)
    weights, out = np.ones((1, 1, 1, 1), np.float32), np.empty((1, 1, 3, 1), np.float32)
    operation = Convolution(ConvolutionShape(1, 1, 3, 1, 1, (1, 1)))
    operation.forward(images, weights, None, out, relu=True)
    assert_array_equal(out.ravel(), [0, 2, np.nan])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_outputs_equal_those_of_pytorch_in_float64(shape: ConvolutionShape) -> None:
    images, weights, bias, out = arrays(shape)
    Convolution(shape).forward(images, weights, bias, out)
    channels_first, *parameters = map(
        torch.from_numpy, (images.transpose(0, 3, 1, 2), weights, bias)
    )
    expected = torch.conv2d(
        channels_first, *parameters, shape.stride, shape.padding, shape.dilation, shape.groups
    )
    assert_allclose(out, expected.permute(0, 2, 3, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients_equal_finite_differences(
    shape: ConvolutionShape, gradients_agree: Callable[..., None]
) -> None:
    images, weights, bias, gradient = arrays(shape)
    operation, out = Convolution(shape), np.empty_like(gradient)

    def forward() -> np.ndarray:
        operation.forward(images, weights, bias, out)
        return out

    images_out, weights_out, bias_out = map(np.empty_like, (images, weights, bias))
    operation.backward_data(gradient, weights, images_out)
    operation.backward_weights(images, gradient, weights_out, bias_out)
    pairs = [(images, images_out), (weights, weights_out), (bias, bias_out)]
    gradients_agree(forward, gradient, pairs)


@settings(max_examples=10)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, convolution_contract: Any) -> None:
    convolution_contract("reference", data.draw)
