from __future__ import annotations

import numpy as np
import pytest
from contracts.vectors import SIZES, check_same_bits

from vectorized_ops.numba import averages
from vectorized_ops.reference import averages as reference


@pytest.mark.parametrize("size", SIZES)
def test_moving_average_equals_reference_to_the_last_bit(size: int) -> None:
    def compiled(*vectors: np.ndarray) -> None:
        averages.moving_average(*vectors, 0.001)

    def plain(*vectors: np.ndarray) -> None:
        reference.moving_average(*vectors, 0.001)

    check_same_bits(compiled, plain, 2, size)


@pytest.mark.parametrize("size", SIZES)
def test_running_average_equals_reference_to_the_last_bit(size: int) -> None:
    def counted(update: object) -> list[np.ndarray]:
        average, moved = np.random.default_rng(size).standard_normal((2, size), np.float32)
        count = np.full(size, 4, np.float32)
        update(average, count, moved)  # type: ignore[operator]
        return [average, count]

    found, expected = counted(averages.running_average), counted(reference.running_average)
    for got, wanted in zip(found, expected, strict=True):
        assert np.array_equal(got.view(np.int32), wanted.view(np.int32))


def test_vectors_of_other_lengths_are_refused() -> None:
    a, b = np.zeros(3, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="same length"):
        averages.moving_average(a, b, 0.5)
    with pytest.raises(ValueError, match="same length"):
        averages.running_average(a, b, a)
