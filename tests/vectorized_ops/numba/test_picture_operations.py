"""The compiled operations give what the definition does, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.picture_operations import operated
from vectorized_ops.reference import picture_operations as reference
from vectorized_ops.reference.picture_operations import ONE, Kind, OperationPlan


def plan_of(rng: np.random.Generator, kinds: np.ndarray) -> OperationPlan:
    numbers = np.zeros((*kinds.shape, 6), np.int64)
    numbers[..., 0] = rng.integers(0, 2 * ONE, kinds.shape)
    for kind, low, high in ((Kind.POSTERIZE, 0, 256), (Kind.SOLARIZE, 0, 257)):
        is_it = kinds == kind
        numbers[is_it, 0] = rng.integers(low, high, int(is_it.sum()))
    is_moved = kinds == Kind.MOVED
    numbers[is_moved] = rng.normal(0, ONE, (int(is_moved.sum()), 6)).astype(np.int64)
    numbers[is_moved, 2::3] *= 9
    return OperationPlan(kinds, numbers)


@pytest.mark.parametrize("shape", [(9, 14, 3), (1, 1, 3), (2, 7, 1), (24, 24, 1), (40, 33, 3)])
def test_all_operations_equal_the_definition(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(shape[0])
    kinds = np.concatenate(
        [
            np.repeat(np.array([list(Kind)]), 6, axis=0).T,  # one after itself
            rng.integers(0, len(Kind), (20, 6)),
        ]
    )
    images = rng.normal(120, 90, (len(kinds), *shape)).astype(np.float32)
    images[::3] = 50 + images[::3] / 9  # narrow histograms
    plan = plan_of(rng, kinds)
    found, expected = (np.empty(images.shape, np.uint8) for _ in range(2))
    operated(images, plan, found)
    reference.operated(images, plan, expected)
    np.testing.assert_array_equal(found, expected)


def test_memory_that_is_not_in_one_piece_is_refused() -> None:
    images = np.zeros((1, 4, 4, 1), np.float32)
    plan = OperationPlan(np.zeros((1, 1), np.int64), np.zeros((1, 1, 6), np.int64))
    with pytest.raises(OperationError, match="one value after another"):
        operated(images, plan, np.empty((1, 4, 8, 1), np.uint8)[:, :, ::2])
    operated(
        images[:0],
        OperationPlan(plan.kinds[:0], plan.numbers[:0]),
        np.empty((0, 4, 4, 1), np.uint8),
    )
