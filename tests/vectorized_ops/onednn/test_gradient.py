from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.gradient import write_gradient as write_reference

MASK = np.array([[-1, 0, 2, np.nan, np.inf]], np.float32)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("mask", [None, MASK])
def test_values_replace_or_are_added_and_are_masked(add: bool, mask: np.ndarray | None) -> None:
    value = np.array([[1, 2, 3, 4, np.nan]], np.float32)
    found, expected = np.full((2, 1, 5), 10, np.float32)
    masked = None if mask is None else torch.from_numpy(mask)
    write_gradient(torch.from_numpy(value), torch.from_numpy(found), add, masked)
    write_reference(value, expected, add, mask)
    assert_array_equal(found, expected)
