"""Gradients of weights, with either operand transposed into panels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contracts.convolution import whole_operands
from contracts.memory import REFERENCE, ROUNDED, Memory, implementation
from numpy.testing import assert_array_equal

from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.weights_gradient import WeightsGradient, is_quicker_turned
from vectorized_ops.shapes import ConvolutionShape

WIDE = ConvolutionShape(20, 5, 7, 3, 64, (1, 1))
"""Many more filters than channels."""


@pytest.mark.parametrize(
    ("shape", "quicker"),
    [
        (WIDE, True),
        (ConvolutionShape(32, 56, 56, 64, 256, (1, 1)), True),
        (ConvolutionShape(32, 56, 56, 256, 64, (1, 1)), False),
        (ConvolutionShape(32, 56, 56, 64, 256, (1, 1), stride=(2, 2)), False),
        (ConvolutionShape(32, 56, 56, 64, 256, (3, 3), padding=(1, 1)), False),
        (ConvolutionShape(32, 56, 56, 64, 256, (1, 1), groups=2), False),
        (ConvolutionShape(32, 56, 56, 64, 256, (1, 1), padding=(1, 1)), False),
    ],
)
def test_the_smaller_operand_is_transposed_where_both_have_the_same_pixels(
    shape: ConvolutionShape, quicker: bool
) -> None:
    assert is_quicker_turned(shape) is quicker


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("name", "number"), [("numba", 20), (ROUNDED, 20), (ROUNDED, 10)])
def test_either_way_gives_the_gradient(name: str, number: int, turned: bool, threads: int) -> None:
    shape = replace(WIDE, images=number)
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))[2]
    place = Memory(implementation(name))
    images, gradient = place.holding(operands.images), place.holding(operands.summed, padding=0)
    way, out = WeightsGradient(shape, threads, turned), np.full(WIDE.weights, np.nan, np.float32)
    memory = aligned_zeros((way.scratch_size,))
    memory.fill(np.nan)
    way.write(images, gradient, memory, out)
    assert_array_equal(out, expected)


def test_biases_have_a_gradient_where_turning_would_be_quicker() -> None:
    operands = whole_operands(WIDE)
    place = Memory(operations("numba"))
    images, gradient = place.holding(operands.images), place.holding(operands.summed, padding=0)
    made, weights = Convolution(WIDE), np.empty(WIDE.weights, np.float32)
    with_bias, bias = np.empty_like(weights), np.empty(WIDE.filters, np.float32)
    made.backward_weights(images, gradient, weights, None)
    made.backward_weights(images, gradient, with_bias, bias)
    assert_array_equal(weights, with_bias)
    assert_array_equal(bias, operands.summed.sum(axis=(0, 1, 2)))
