from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.vectorized_ops.device.drawn import CLIPPINGS, GROUPS, three_steps
from vectorized_ops.device import adaptive
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference import adaptive as reference

RULES: dict[str, tuple[int, tuple[float, ...]]] = {
    "AdaGradUpdate": (1, (1e-8,)),
    "RMSPropUpdate": (1, (0.9, 1e-8)),
    "AdaDeltaUpdate": (2, (0.9, 1e-6)),
    "AdamUpdate": (2, (0.9, 0.99, 1e-8)),
}
"""Vectors of the state, and the numbers of each rule."""


@pytest.mark.parametrize("name", RULES)
@given(GROUPS, CLIPPINGS, st.booleans())
def test_three_steps_follow_the_reference(
    name: str, groups: ParameterGroups, clipping: Clipping, l1: bool
) -> None:
    vectors, numbers = RULES[name]
    for here, there in three_steps(
        groups,
        clipping,
        [(vectors, groups.size)],
        getattr(reference, name)(groups, clipping, l1, *numbers),
        lambda on_device: getattr(adaptive, name)(on_device, l1, *numbers),
        counts=True,
    ):
        # PyTorch's square roots on processors may be off by one bit.
        assert_allclose(there, here, rtol=1e-5, atol=1e-6)
