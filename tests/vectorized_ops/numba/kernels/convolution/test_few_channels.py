from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import STORED, aligned_zeros, pixels, zeros_images_last
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.kernels.convolution.few_channels import (
    MOST_CHANNELS,
    bordered_size,
    copy_with_borders,
    widened,
    widens,
)
from vectorized_ops.reference.convolution import Convolution as Reference
from vectorized_ops.shapes import ConvolutionShape

IMAGES = 16
SHAPES = [
    ConvolutionShape(IMAGES, 9, 8, 3, 5, (3, 5), padding=(1, 2)),
    ConvolutionShape(IMAGES, 11, 12, 1, 5, (4, 3), (2, 3), (2, 0), (2, 1)),
    ConvolutionShape(IMAGES, 3, 2, MOST_CHANNELS, 5, (7, 7), padding=(3, 3)),
    ConvolutionShape(IMAGES, 1, 1, 2, 5, (1, 2), padding=(0, 4)),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_wide_pixels_have_the_outputs_of_the_pixels(shape: ConvolutionShape) -> None:
    assert widens(shape)
    assert widened(shape).outputs == shape.outputs
    assert widened(shape).flops == shape.flops


@pytest.mark.parametrize(
    "change",
    [{"channels": MOST_CHANNELS + 1}, {"kernel": (3, 1)}, {"dilation": (1, 2)}, {"groups": 2}],
)
def test_convolutions_whose_neighbours_are_no_channels_are_left_as_they_are(
    change: dict[str, object],
) -> None:
    shape = ConvolutionShape(IMAGES, 9, 8, 4, 6, (3, 3))
    assert widens(shape)
    assert not widens(replace(shape, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [np.float32, STORED])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_images_are_copied_with_their_borders_and_channels_of_zeros_as_far_as_outputs_see(
    shape: ConvolutionShape, more: int, threads: int, kept: Any
) -> None:
    rng = np.random.default_rng(0)
    wide = zeros_images_last((IMAGES, shape.height, shape.width, shape.channels + 2), kept)
    wide[...] = rng.integers(1, 9, wide.shape)
    images = wide[..., 1:-1]
    lines, columns = bordered_size(shape)
    pixel = (shape.channels + more) * IMAGES
    out = aligned_zeros((lines * columns * pixel + 1,), kept)
    out[...] = 77
    source, distance = pixels(images)
    copy_with_borders(
        source, distance, (shape.height, shape.width), shape.padding, shape.channels * IMAGES,
        out, (lines, columns), pixel, threads,
    )  # fmt: skip
    border = [(side, 3 * side) for side in shape.padding]
    bordered = np.pad(images, [(0, 0), *border, (0, more)])
    expected = bordered[:, :lines, :columns].transpose(1, 2, 3, 0)
    assert_array_equal(out[:-1].reshape(expected.shape), expected)
    assert out[-1] == 77


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_of_the_weights_is_that_of_the_definition(shape: ConvolutionShape) -> None:
    rng = np.random.default_rng(1)
    images, gradient = zeros_images_last(shape.inputs), zeros_images_last(shape.outputs)
    images[...], gradient[...] = (rng.integers(-3, 4, array.shape) for array in (images, gradient))
    found, expected = np.full((2, *shape.weights), np.nan, np.float32)
    bias, expected_bias = np.full((2, shape.filters), np.nan, np.float32)
    Convolution(shape).backward_weights(images, gradient, found, bias)
    Reference(shape).backward_weights(images, gradient, expected, expected_bias)
    assert_array_equal(found, expected)
    assert_array_equal(bias, expected_bias)
