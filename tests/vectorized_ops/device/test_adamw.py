from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from tests.vectorized_ops.device.drawn import CLIPPINGS, GROUPS, three_steps
from vectorized_ops.device.adamw import AdamWUpdate, keep
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.adamw import AdamWUpdate as Reference


@given(GROUPS, CLIPPINGS)
def test_three_steps_follow_the_reference(groups: ParameterGroups, clipping: Clipping) -> None:
    parameters, *moments = three_steps(
        groups,
        clipping,
        [(groups.size,)] * 2,
        Reference(groups, clipping, 0.9, 0.99, 1e-8),
        lambda on_device: AdamWUpdate(on_device, 0.9, 0.99, 1e-8),
        counts=True,
    )
    for here, there in moments:
        assert_array_equal(there, here)
    # PyTorch's square roots on processors may be off by one bit.
    assert_allclose(parameters[1], parameters[0], rtol=1e-5, atol=1e-6)


def test_an_average_takes_the_rest() -> None:
    average = torch.tensor([1.0, -2.0], dtype=torch.float32, device="cpu")
    keep(average, 0.75, torch.ones_like(average))
    assert_array_equal(average.numpy(), np.array([1.0, -1.25], np.float32))
