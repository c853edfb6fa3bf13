"""Maximum pooling line by line; what each block sees is tested in `test_window_blocks`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.pooling import MaxPooling
from vectorized_ops.reference.pooling import MaxPooling as Reference
from vectorized_ops.shapes import PoolingShape

SHAPES = [
    PoolingShape(9, 8, (3, 3), (1, 1), (1, 1)),
    PoolingShape(6, 7, (3, 3), (1, 1), (1, 1)),
    PoolingShape(8, 11, (2, 3), (1, 1), (1, 0)),
    PoolingShape(10, 9, (3, 1), (1, 1)),
    PoolingShape(10, 11, (1, 2), (1, 1), ceil=True),
    PoolingShape(17, 19, (3, 3), (2, 2), ceil=True),
    PoolingShape(13, 12, (3, 3), (2, 2), ceil=True),
    PoolingShape(20, 18, (3, 2), (2, 2), (1, 1)),
    PoolingShape(18, 16, (2, 3), (2, 2), (1, 1), ceil=True),
    PoolingShape(16, 18, (2, 2), (2, 2)),
    PoolingShape(12, 11, (3, 3), (1, 1)),
]
IMAGES, CHANNELS = 20, 139
"""Three strips of channels that are not all as long; shares of threads begin within them."""


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[1]).integers(-2, 3, shape).astype(np.float32)


def surrounded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values as a slice of the channels of a larger array, and that array."""
    number, height, width, channels = values.shape
    whole = activations((number, height, width, channels + 2), values.dtype)
    whole[...] = 77
    part = whole[..., 1 : channels + 1]
    part[:number] = values
    return part, whole


def check_surroundings(whole: np.ndarray) -> None:
    assert (whole[..., [0, -1]] == 77).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("special", [None, np.nan, -np.inf])
@pytest.mark.parametrize("past", [False, True])
def test_maxima_and_places_are_those_of_the_reference(
    shape: PoolingShape,
    special: float | None,
    past: bool,
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    values = drawn(IMAGES, shape.height, shape.width, CHANNELS)
    if special is not None:
        values[3, :4], values[7, 2, 3, 5] = -np.inf, special
    expected = np.zeros((IMAGES, shape.lines, shape.pixels, CHANNELS), np.float32)
    places = np.zeros(expected.shape, np.uint8)
    Reference(shape).forward(values, expected, places)
    images, _ = surrounded(values)
    out, whole = surrounded(np.zeros_like(expected))
    which, whole_places = surrounded(np.zeros_like(places))
    with storing(past):
        MaxPooling(shape).forward(images, out, which)
    assert_array_equal(out[:IMAGES], expected)
    assert_array_equal(which[:IMAGES], places)
    check_surroundings(whole)
    check_surroundings(whole_places)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("past", [False, True])
def test_gradients_are_those_of_the_reference(
    shape: PoolingShape,
    add: bool,
    masked: bool,
    past: bool,
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    values = drawn(IMAGES, shape.height, shape.width, CHANNELS)
    gradient = drawn(IMAGES, shape.lines, shape.pixels, CHANNELS) * 3
    places = np.zeros(gradient.shape, np.uint8)
    Reference(shape).forward(values, np.zeros_like(gradient), places)
    expected = drawn(*values.shape) + 5
    out, whole = surrounded(expected)
    Reference(shape).backward(gradient, places, expected, add, values if masked else None)
    (slopes, _), (which, _), (mask, _) = map(surrounded, (gradient, places, values))
    with storing(past):
        MaxPooling(shape).backward(slopes, which, out, add, mask if masked else None)
    assert_array_equal(out[:IMAGES], expected)
    check_surroundings(whole)


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[4], SHAPES[-1]])
def test_results_are_the_same_to_the_last_bit_for_any_number_of_threads(
    shape: PoolingShape, same_bits: Callable[..., None]
) -> None:
    images = activations((32, shape.height, shape.width, 7))
    gradient = activations((32, shape.lines, shape.pixels, 7))
    rng = np.random.default_rng(0)
    images[...], gradient[...] = (rng.standard_normal(a.shape) for a in (images, gradient))

    def compute() -> list[np.ndarray]:
        largest, back = activations(gradient.shape), activations(images.shape)
        which = activations(gradient.shape, np.uint8)
        MaxPooling(shape).forward(images, largest, which)
        MaxPooling(shape).backward(gradient, which, back)
        return [largest, which, back]

    same_bits(compute)
