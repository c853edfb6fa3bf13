from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from vectorized_ops.reference.gradient import write_gradient

VALUE = np.array([1, 2, 3, 4, 5], np.float32)
MASK = np.array([-1, 0, 2, np.nan, np.inf], np.float32)


def written(add: bool, mask: np.ndarray | None) -> np.ndarray:
    out = np.full(5, 10, np.float32)
    write_gradient(VALUE, out, add, mask)
    return out


def test_values_replace_or_are_added() -> None:
    assert_array_equal(written(False, None), VALUE)
    assert_array_equal(written(True, None), VALUE + 10)


def test_mask_stops_what_was_there_as_well_and_lets_pass_what_is_not_a_number() -> None:
    assert_array_equal(written(False, MASK), [0, 0, 3, 4, 5])
    assert_array_equal(written(True, MASK), [0, 0, 13, 14, 15])
