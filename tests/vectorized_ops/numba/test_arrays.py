from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.numba import arrays
from vectorized_ops.numba.compiling.compiler import SETTINGS


@settings(max_examples=25)
@given(data=st.data())
def test_arrays_take_images(data: st.DataObject, arrays_contract: Callable[..., None]) -> None:
    arrays_contract("numba", data.draw)


@settings(max_examples=25)
@given(data=st.data())
def test_images_are_flattened_and_their_gradient_goes_back(
    data: st.DataObject, flattening_contract: Callable[..., None]
) -> None:
    flattening_contract("numba", data.draw)


def test_images_are_padded_to_whole_vectors() -> None:
    assert arrays.activations((17, 2, 3, 4)).shape == (32, 2, 3, 4)
    assert arrays.activations((3, 2), np.uint8).dtype == np.uint8


@pytest.mark.parametrize("given", [1, 15, 16, 17, 33, 64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 1), (4, 4, 1), (29, 30, 3)])
def test_images_are_transposed_whole_and_in_part(given: int, shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).standard_normal((given, *shape)).astype(np.float32)
    out, joined = arrays.activations((64, *shape)), arrays.activations((64, *shape[:2], 7))
    for target in (out, joined[..., 2 : 2 + shape[2]]):
        target[...] = np.nan
        arrays.load_images(images, target)
        assert_array_equal(target[:given], images)
        assert (target[given:] == 0).all()
    assert not joined[..., :2].any()
    assert not joined[..., 2 + shape[2] :].any()


def test_images_of_another_type_are_refused() -> None:
    out = arrays.activations((16, 2, 3, 4))
    with pytest.raises(OperationError, match=r"type float64 .* all float32"):
        arrays.load_images(np.ones((16, 2, 3, 4)), out)


def test_vectors_of_another_size_are_refused() -> None:
    images = arrays.activations((16, 2, 3, 4))
    for shape in ((16, 25), (32, 24)):
        vectors = arrays.activations(shape)
        for copy in (lambda v=vectors: arrays.flatten(images, v),
                     lambda v=vectors: arrays.unflatten(v, images)):  # fmt: skip
            with pytest.raises(OperationError, match=r"expected vectors of shape \(16, 24\)"):
                copy()


@pytest.mark.parametrize("shape", [(17, 2, 3, 4), (16, 2, 3, 5), (16, 3, 2, 4)])
def test_images_that_do_not_fit_are_refused_not_written_past_the_end(
    shape: tuple[int, ...],
) -> None:
    out = arrays.activations((16, 2, 3, 4))
    with pytest.raises(OperationError, match=r"\(2, 3, 4\) per image and at most 16 images"):
        arrays.load_images(np.ones(shape, np.float32), out)
    assert not out.any()


def test_threads_are_numbas_and_more_than_it_has_are_refused() -> None:
    arrays.use_threads(1)
    assert numba.get_num_threads() == 1
    most = SETTINGS.NUMBA_NUM_THREADS
    arrays.use_threads(most)
    assert numba.get_num_threads() == most
    with pytest.raises(OperationError, match=f"started with {most}: set NUMBA_NUM_THREADS"):
        arrays.use_threads(most + 1)
