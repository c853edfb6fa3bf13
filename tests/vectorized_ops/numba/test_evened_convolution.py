"""Pictures in bfloat16: a channel of zeros more makes pairs, and no other result."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import STORED, zeros_images_last
from vectorized_ops.numba.compiling.replay import Program, captured
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.evened_convolution import evens
from vectorized_ops.shapes import ConvolutionShape

PICTURES = ConvolutionShape(32, 9, 8, 3, 160, (3, 2), stride=(2, 1), padding=(1, 1))


@pytest.mark.parametrize("before", [0, 2], ids=["alone", "a slice of channels"])
def test_results_are_those_of_the_channels_that_there_are(before: int) -> None:
    rng = np.random.default_rng(0)
    values, weights = (
        rng.integers(-3, 4, shape).astype(np.float32)
        for shape in (PICTURES.inputs, PICTURES.weights)
    )
    number, *map_size, channels = PICTURES.inputs
    wide = zeros_images_last((number, *map_size, before + channels + 1), STORED)
    wide[...] = rounded(np.full(1, np.nan, np.float32))
    images = wide[..., before : before + channels]
    images[...] = rounded(values)
    found, expected = (zeros_images_last(PICTURES.outputs, STORED) for _ in range(2))
    bias = np.arange(160, dtype=np.float32)
    operation, plain = Convolution(PICTURES, STORED), Convolution(PICTURES)
    memory = np.full(operation.scratch_size, np.nan, np.float32)
    operation.use_scratch(memory)
    moments, plainly = operation.moments(30), plain.moments(30)
    other = np.zeros_like(weights)
    calls = captured(lambda: operation.forward(images, other, bias, found, True, moments))
    assert calls is not None
    other[...] = weights
    Program([calls]).between(0, len(calls.calls))(None)  # copies the weights as they are now
    plain.forward(images, weights, bias, expected, True, plainly)
    assert widened(expected).any()
    assert_array_equal(found, expected)
    statistics = np.zeros((2, 2, 160), np.float32)
    moments.write(*statistics[0])
    plainly.write(*statistics[1])
    assert_array_equal(*statistics)


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "kept", "expected"),
    [
        (3, 180, 1, STORED, True),
        (3, 180, 1, np.dtype(np.float32), False),
        (3, 18, 1, STORED, False),
        (1, 180, 1, STORED, False),
        (4, 180, 1, STORED, False),
        (9, 540, 3, STORED, False),
    ],
    ids=["pictures", "float32", "few filters", "one channel", "even", "groups"],
)
def test_odd_numbers_of_channels_are_evened(
    channels: int, filters: int, groups: int, kept: np.dtype[np.generic], expected: bool
) -> None:
    shape = ConvolutionShape(16, 5, 5, channels, filters, (3, 3), groups=groups)
    assert evens(shape, kept) == expected
