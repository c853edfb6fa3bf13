from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest

from vectorized_ops.layout import pixels, zeros_images_last
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, PAST, RELU, destination


@pytest.mark.parametrize("mode", [0, RELU, ADD, MASK, ADD | MASK])
@pytest.mark.parametrize("past", [False, True])
def test_only_results_that_are_neither_added_nor_masked_go_past_the_caches(
    past: bool, mode: int, storing: Callable[[bool], AbstractContextManager[None]]
) -> None:
    out, mask, inputs = (zeros_images_last((16, 3, 2, 5)) for _ in range(3))
    with storing(past):
        (target, distance), (masking, mask_distance), found = destination(
            out, mask, mode, pixels(inputs)[0]
        )
        assert destination(out, mask, mode, target)[2] == mode  # they go where they come from
    assert found == mode | PAST * (past and not mode & (ADD | MASK))
    assert np.shares_memory(target, out)
    assert np.shares_memory(masking, mask)
    assert distance == mask_distance == 5 * 16


def test_without_a_mask_the_results_stand_for_it() -> None:
    out = zeros_images_last((16, 3, 2, 5))
    (target, _), (masking, distance), mode = destination(out, None, RELU, out.reshape(-1))
    assert masking is target
    assert (distance, mode) == (0, RELU)
