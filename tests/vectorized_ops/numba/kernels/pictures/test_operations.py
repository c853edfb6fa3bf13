"""Parts of the operations that a caller sees no other way."""

from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.numba.kernels.pictures.operations import mean_grey, moved, towards
from vectorized_ops.reference.picture_operations import ONE


@pytest.mark.parametrize(
    ("value", "other", "share", "expected"),
    [(100, 0, ONE, 100), (100, 0, ONE // 2, 50), (101, 0, ONE // 2, 51), (200, 0, 2 * ONE, 255),
     (50, 200, 2 * ONE, 0), (7, 9, 0, 9)],
)  # fmt: skip
def test_a_mixture_is_rounded_and_cut_off(value, other, share, expected) -> None:
    assert towards(value, other, share) == expected


def test_the_mean_grey_is_rounded() -> None:
    assert mean_grey(np.array([1, 2], np.uint8), 1) == 2
    assert mean_grey(np.array([255, 255, 255, 0, 0, 0], np.uint8), 3) == 128


def test_places_are_those_of_the_map_and_black_beyond() -> None:
    picture, out = np.arange(1, 7, dtype=np.uint8), np.empty(6, np.uint8)
    moved(picture, np.array([ONE, 0, ONE, 0, ONE, 0]), 2, 3, 1, out)
    assert out.tolist() == [2, 3, 0, 5, 6, 0]
    moved(picture, np.array([ONE, 0, -ONE, 0, -ONE, ONE]), 2, 3, 1, out)
    assert out.tolist() == [0, 4, 5, 0, 1, 2]
