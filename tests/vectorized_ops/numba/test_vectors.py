from __future__ import annotations

import numpy as np
import pytest
from contracts.vectors import SIZES, check_same_bits

from vectorized_ops.numba import vectors
from vectorized_ops.reference import vectors as reference


@pytest.mark.parametrize("size", SIZES)
def test_operations_equal_reference_to_the_last_bit(size: int) -> None:
    check_same_bits(vectors.accumulate, reference.accumulate, 2, size)
    check_same_bits(lambda x: vectors.scale(x, 0.3), lambda x: reference.scale(x, 0.3), 1, size)
    check_same_bits(
        lambda x, y: vectors.axpby(x, 0.3, y, 1.7),
        lambda x, y: reference.axpby(x, 0.3, y, 1.7),
        2,
        size,
    )


def test_vectors_of_other_lengths_are_refused() -> None:
    a, b = np.zeros(3, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="same length"):
        vectors.accumulate(a, b)
    with pytest.raises(ValueError, match="same length"):
        vectors.axpby(a, 1.0, b, 1.0)
