"""Groups and vectors for the tests of updates on devices, here on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from vectorized_ops.device.groups import DeviceGroups
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

HOST = torch.device("cpu")
GROUPS = st.lists(
    st.tuples(
        st.integers(1, 99),
        st.sampled_from([0.0, 1.0, 2.0]),
        st.sampled_from([0.0, 0.01]),
        st.sampled_from([math.nan, 0.0, 0.1]),
    ),
    min_size=1,
    max_size=6,
).map(lambda groups: groups_of(groups))
"""Length, rate, decay and statistic momentum of each group."""
CLIPPINGS = st.builds(Clipping, *(st.sampled_from([math.inf, 1.5]),) * 2)


def groups_of(groups: Sequence[tuple[int, float, float, float]]) -> ParameterGroups:
    lengths, *numbers = zip(*groups, strict=True)
    bounds = np.cumsum([0, *lengths], dtype=np.int64)
    return ParameterGroups(bounds, *(np.array(each, np.float32) for each in numbers))


def three_steps(
    groups: ParameterGroups,
    clipping: Clipping,
    states: Sequence[tuple[int, ...]],
    here: Callable[..., Any],
    there: Callable[[DeviceGroups], Any],
    counts: bool,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parameters and states after three steps by the definition and on the device."""
    rng = np.random.default_rng(groups.size)
    parameters, *gradients = rng.standard_normal((4, groups.size)).astype(np.float32)
    parameters[::3] = 0
    frozen = np.repeat(groups.statistics == 0, np.diff(groups.bounds))
    gradients[1][frozen] = np.nan  # frozen values stay, whatever their gradient is
    update = there(DeviceGroups(groups, clipping, HOST))
    # A group may be frozen when its state is not zero, as behind weights of another run.
    drawn = (np.square(rng.standard_normal(shape)).astype(np.float32) for shape in states)
    found = [parameters, *drawn]
    tensors = [torch.from_numpy(each.copy()) for each in found]
    for step, (gradient, rate) in enumerate(zip(gradients, (0.1, 0.1, 0.03), strict=True), 1):
        numbers = (step, rate) if counts else (rate,)
        here(found[0], gradient, *found[1:], *numbers)
        there = map(torch.from_numpy, update.numbers(*numbers))
        update(tensors[0], torch.from_numpy(gradient.copy()), *tensors[1:], *there)
    return [(a, b.numpy()) for a, b in zip(found, tensors, strict=True)]
