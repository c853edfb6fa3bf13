from __future__ import annotations

import numpy as np
import pytest
from contracts.vectors import SIZES

from vectorized_ops.numba.outer_step import synchronous_outer_step
from vectorized_ops.reference import outer_step as reference

COEFFICIENTS = (0.9, 1.5, 0.63, 0.7)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_outer_step_equals_reference_to_the_last_bit(workers: int, size: int) -> None:
    rng = np.random.default_rng([workers, size])
    # Rows that do not follow one another, as those of a group.
    rows = rng.standard_normal((workers + 2, size + 3), np.float32)
    found, expected = rows.copy(), rows.copy()
    for vectors, step in (
        (found, synchronous_outer_step),
        (expected, reference.synchronous_outer_step),
    ):
        part = vectors[:, 3:]
        step(part[:workers], part[workers], part[workers + 1], *COEFFICIENTS)
    assert np.array_equal(found.view(np.int32), expected.view(np.int32))


def test_shapes_that_do_not_fit_are_refused() -> None:
    locals_, short, long = (
        np.zeros((2, 3), np.float32),
        np.zeros(3, np.float32),
        np.zeros(4, np.float32),
    )
    with pytest.raises(ValueError, match="same number of columns"):
        synchronous_outer_step(locals_, long, long, *COEFFICIENTS)
    with pytest.raises(ValueError, match="same length"):
        synchronous_outer_step(locals_, short, long, *COEFFICIENTS)
    with pytest.raises(ValueError, match="contiguous"):
        synchronous_outer_step(np.zeros((2, 6), np.float32)[:, ::2], short, short, *COEFFICIENTS)
