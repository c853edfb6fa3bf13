from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tests.vectorized_ops.device.drawn import CLIPPINGS, GROUPS, three_steps
from vectorized_ops.device.sgd import SGDUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.sgd import SGDUpdate as Reference


@given(GROUPS, CLIPPINGS, st.booleans(), st.booleans())
def test_three_steps_have_the_bits_of_the_reference(
    groups: ParameterGroups, clipping: Clipping, nesterov: bool, l1: bool
) -> None:
    for here, there in three_steps(
        groups,
        clipping,
        [(groups.size,)],
        Reference(groups, clipping, 0.9, nesterov, l1),
        lambda on_device: SGDUpdate(on_device, 0.9, nesterov, l1),
        counts=False,
    ):
        assert_array_equal(there, here)
