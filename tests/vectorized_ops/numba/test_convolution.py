from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.numba._tiles import DOT_COLUMNS, DOT_ROWS
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.reference.convolution import Convolution as ReferenceConvolution


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, convolution_contract: Callable[..., None]
) -> None:
    convolution_contract("numba", data.draw, least_filters=DOT_ROWS, least_taps=DOT_COLUMNS)


def computed(
    memory: Any, shape: tuple[int, ...], filters: int, *window: int
) -> tuple[list[np.ndarray], ...]:
    """Results on random values and the reference's in float64: outputs and all gradients."""
    kernel, stride, padding = window
    rng, images = np.random.default_rng(1), shape[0]
    lines, pixels = ((side + 2 * padding - kernel) // stride + 1 for side in shape[1:3])
    shapes = [
        shape,
        (filters, shape[3], kernel, kernel),
        (filters,),
        (images, lines, pixels, filters),
    ]
    drawn = [rng.standard_normal(size).astype(np.float32) for size in shapes]
    place, results = memory(operations("numba")), []
    operation = Convolution(shape, filters, *window)
    values, weights, bias, gradient = drawn
    out, images_out = place.garbage(*gradient.shape), place.garbage(*shape)
    weights_out, bias_out = np.empty_like(weights), np.empty_like(bias)
    inputs, padded = place.holding(values), place.holding(gradient, padding=0)
    operation.forward(inputs, weights, bias, out)
    operation.backward_weights(inputs, padded, weights_out, bias_out)
    operation.backward_data(padded, weights, images_out)
    results = [out[:images], images_out[:images], weights_out, bias_out]

    exact = ReferenceConvolution(shape, filters, *window)
    values, weights, bias, gradient = (array.astype(np.float64) for array in drawn)
    wanted = [np.empty_like(array) for array in (gradient, values, weights, bias)]
    exact.forward(values, weights, bias, wanted[0])
    exact.backward_data(gradient, weights, wanted[1])
    exact.backward_weights(values, gradient, wanted[2], wanted[3])
    return results, wanted


@pytest.mark.parametrize(
    ("shape", "filters", "window"),
    [((64, 12, 12, 20), 50, (5, 1, 0)), ((16, 11, 11, 8), 24, (3, 2, 1))],
)
def test_rounding_stays_small(
    memory: Any, shape: tuple[int, ...], filters: int, window: tuple[int, ...]
) -> None:
    for found, exact in zip(*computed(memory, shape, filters, *window), strict=True):
        assert np.abs(found - exact).max() < 4e-6 * np.abs(exact).max()


def test_neither_another_run_nor_threads_change_a_bit(
    memory: Any, same_bits: Callable[..., None]
) -> None:
    # 6 filters: the second block of 4 overlaps the first, and another thread may write it.
    same_bits(lambda: computed(memory, (40, 7, 6, 3), 6, 3, 2, 1)[0])


@pytest.mark.parametrize(
    ("shape", "filters", "kernel", "padding"),
    [
        ((16, 8, 8, 4), DOT_ROWS - 1, 3, 0),
        ((16, 8, 8, 1), 8, 1, 0),
        ((16, 8, 8, 4), 8, 3, 3),
        ((16, 8, 2, 4), 8, 3, 0),
    ],
    ids=["few filters", "few weights", "wide border", "small map"],
)
def test_shapes_that_the_tiles_do_not_take_are_refused_with_the_alternatives(
    shape: tuple[int, ...], filters: int, kernel: int, padding: int
) -> None:
    with pytest.raises(OperationError, match="use the reference or the oneDNN implementation"):
        Convolution(shape, filters, kernel, 1, padding)
