from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.vectorized_ops.device.drawn import CLIPPINGS, GROUPS, three_steps
from vectorized_ops.device.lars import LARSUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.lars import LARSUpdate as Reference


@given(GROUPS, CLIPPINGS, st.integers(0, 63))
def test_three_steps_follow_the_reference(
    groups: ParameterGroups, clipping: Clipping, chosen: int
) -> None:
    adapted = np.array([bool(chosen >> s & 1) for s in range(len(groups.rates))])
    for here, there in three_steps(
        groups,
        clipping,
        [(groups.size,)],
        Reference(groups, clipping, 0.9, 0.02, adapted),
        lambda on_device: LARSUpdate(on_device, 0.9, 0.02, adapted),
        counts=False,
    ):
        assert_allclose(there, here, rtol=1e-5, atol=1e-7)
