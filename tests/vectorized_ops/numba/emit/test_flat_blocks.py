from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import zeros_images_last
from vectorized_ops.numba.emit.flat_blocks import blocks


def test_dense_arrays_are_one_block() -> None:
    left, right = zeros_images_last((16, 3, 4, 5)), zeros_images_last((16, 3, 4, 5))
    seen = blocks(left, right)
    assert (seen.number, seen.size) == (1, left.size)
    assert [len(flat) for flat, _ in seen.arrays] == [left.size] * 2
    assert np.shares_memory(seen.arrays[1][0], right)


def test_vectors_are_one_block() -> None:
    seen = blocks(zeros_images_last((32, 7)))
    assert (seen.number, seen.size) == (1, 32 * 7)


def test_slice_of_channels_makes_each_pixel_a_block() -> None:
    whole, cut = zeros_images_last((16, 3, 4, 5)), zeros_images_last((16, 3, 4, 9))[..., 2:7]
    seen = blocks(whole, cut)
    assert (seen.number, seen.size) == (12, 16 * 5)
    assert [distance for _, distance in seen.arrays] == [16 * 5, 16 * 9]


def test_arrays_of_different_shapes_are_refused() -> None:
    with pytest.raises(OperationError, match=r"\(16, 3\), \(16, 4\) .* expected one shape"):
        blocks(zeros_images_last((16, 4)), zeros_images_last((16, 3)))
