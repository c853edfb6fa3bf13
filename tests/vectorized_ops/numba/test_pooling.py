from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.pooling import AveragePooling, MaxPooling
from vectorized_ops.reference import pooling as reference
from vectorized_ops.shapes import PoolingShape

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=60)
@given(data=st.data())
def test_maxima_places_and_gradients_equal_the_reference_for_any_shape(
    data: st.DataObject, pooling_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        pooling_contract("numba", data.draw)


@settings(max_examples=60)
@given(data=st.data())
def test_means_and_gradients_follow_the_reference_for_any_shape(
    data: st.DataObject, average_pooling_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        average_pooling_contract("numba", data.draw)


@settings(max_examples=40)
@given(data=st.data())
def test_means_of_whole_maps_follow_the_reference(
    data: st.DataObject, global_average_pooling_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        global_average_pooling_contract("numba", data.draw)


def test_what_is_not_a_number_is_carried_on(
    not_numbers_in_pooling_contract: Callable[..., None],
) -> None:
    not_numbers_in_pooling_contract("numba")


def test_results_are_the_same_to_the_last_bit_for_any_number_of_threads(
    same_bits: Callable[..., None],
) -> None:
    rng, shape = np.random.default_rng(0), PoolingShape(9, 8, (3, 3), (2, 1), (1, 1))
    images, gradient = activations((20, 9, 8, 5)), activations((20, 5, 8, 5))
    images[:20], gradient[:20] = (rng.standard_normal(a[:20].shape) for a in (images, gradient))

    def compute() -> list[np.ndarray]:
        largest, means = activations(gradient.shape), activations(gradient.shape)
        which = activations(gradient.shape, np.uint8)
        backs = [activations(images.shape) for _ in range(2)]
        MaxPooling(shape).forward(images, largest, which)
        MaxPooling(shape).backward(gradient, which, backs[0])
        AveragePooling(shape).forward(images, means)
        AveragePooling(shape).backward(gradient, backs[1])
        return [largest, which, means, *backs]

    same_bits(compute)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_means_of_many_channels_are_made_strip_by_strip(threads: int) -> None:
    """Of 180 rows of a pixel 81 at a time; what two threads share ends within a strip."""
    rng, shape = np.random.default_rng(0), PoolingShape(7, 7, (5, 5), (1, 1))
    images = activations((32, 7, 7, 90))
    images[...] = rng.standard_normal(images.shape)
    out, expected = activations((32, 3, 3, 90)), np.zeros((32, 3, 3, 90), np.float32)
    reference.AveragePooling(shape).forward(images, expected)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        AveragePooling(shape).forward(images, out)
    finally:
        numba.set_num_threads(before)
    assert_allclose(out, expected, atol=1e-6)


def test_window_with_more_places_than_a_byte_can_name_is_refused() -> None:
    with pytest.raises(OperationError, match=r"17x17 pixels .* at most 256 pixels"):
        MaxPooling(PoolingShape(20, 20, (17, 17), (1, 1)))
