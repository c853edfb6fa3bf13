from __future__ import annotations

import numpy as np
import pytest
from contracts.vectors import SIZES, check_same_bits

from vectorized_ops.numba import downpour
from vectorized_ops.reference import downpour as reference


@pytest.mark.parametrize("size", SIZES)
def test_push_and_pull_equals_reference_to_the_last_bit(size: int) -> None:
    check_same_bits(downpour.downpour_update, reference.downpour_update, 3, size)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_velocity_equals_reference_to_the_last_bit(size: int, nesterov: bool) -> None:
    def compiled(*vectors: np.ndarray) -> None:
        downpour.momentum_downpour_update(*vectors, 0.9, nesterov)

    def plain(*vectors: np.ndarray) -> None:
        reference.momentum_downpour_update(*vectors, 0.9, nesterov)

    check_same_bits(compiled, plain, 4, size)


def test_vectors_of_other_lengths_are_refused() -> None:
    a, b = np.zeros(3, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="same length"):
        downpour.downpour_update(a, a, b)
    with pytest.raises(ValueError, match="same length"):
        downpour.momentum_downpour_update(a, a, a, b, 0.5, False)
