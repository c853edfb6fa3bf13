from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from tests.vectorized_ops.device.drawn import GROUPS, HOST, groups_of
from vectorized_ops.device.groups import DeviceGroups
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import squared_norms

ORDINARY = math.nan


def on_host(*groups: tuple[int, float, float, float], **bounds: float) -> DeviceGroups:
    return DeviceGroups(groups_of(groups), Clipping(**bounds), HOST)


def test_equal_groups_have_one_number_whatever_it_is() -> None:
    groups = on_host((2, 1.0, 0.1, ORDINARY), (3, 2.0, 0.1, ORDINARY), (1, 9.0, 0.7, 0.5))
    assert groups.spread_decays.tolist() == [np.float32(0.1)]  # that of statistics does not count
    for learning_rate in (0.0, 0.5):
        spread = groups.spread(torch.from_numpy(groups.rates_at(learning_rate)))
        assert spread[:5].tolist() == [learning_rate * each for each in (1, 1, 2, 2, 2)]


def test_groups_of_statistics_alone_have_some_number() -> None:
    groups = on_host((2, 1.0, 0.1, 0.5))
    parameters = torch.ones(2, dtype=torch.float32, device=HOST)
    with groups.stepping(parameters, torch.ones_like(parameters)):
        assert groups.rates_at(0.5).tolist() == [0.5]
    assert parameters.tolist() == [0.5, 0.5]


def test_statistics_move_as_they_do_whatever_the_update_does() -> None:
    groups = on_host((1, 1.0, 0.1, 0.5), (1, 1.0, 0.1, 0.0), (2, 1.0, 0.0, ORDINARY))
    parameters = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float32, device=HOST)
    gradient = torch.tensor([4.0, math.inf, 5.0, 6.0], dtype=torch.float32, device=HOST)
    states = torch.ones(2, 4, dtype=torch.float32, device=HOST), torch.ones_like(gradient)
    with groups.stepping(parameters, gradient, *states):
        assert parameters.tolist() == [-1, 2, 3, 4]
        assert gradient.tolist() == [0, 0, 5, 6]
        for vector in (parameters, *states):
            vector += math.inf
            vector[..., 2:] = 7
    assert parameters.tolist() == [-1, 2, 7, 7]
    assert [each.tolist() for each in states] == [[[1, 1, 7, 7]] * 2, [1, 1, 7, 7]]


@pytest.mark.parametrize(
    ("gradient", "clipped"),
    [([3.0, 4.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4]), ([math.nan, 4.0], [math.nan, 4.0])],
)
def test_a_gradient_is_brought_to_a_norm(gradient: list[float], clipped: list[float]) -> None:
    groups = on_host((2, 1.0, 0.0, ORDINARY), norm=1.0)
    found = torch.tensor(gradient, dtype=torch.float32, device=HOST)
    with groups.stepping(torch.zeros_like(found), found):
        pass
    assert_allclose(found.numpy(), np.array(clipped, np.float32), rtol=1e-6)


@given(GROUPS)
def test_norms_are_those_of_the_reference(groups: ParameterGroups) -> None:
    vector = np.random.default_rng(1).standard_normal(groups.size).astype(np.float32)
    found = DeviceGroups(groups, Clipping(), HOST).squared_norms(torch.from_numpy(vector))
    assert_allclose(found.numpy(), squared_norms(vector, groups), rtol=1e-12)


def test_both_regularisations() -> None:
    groups = on_host((3, 1.0, 0.5, ORDINARY))
    parameters = torch.tensor([-4.0, 0.0, 2.0], dtype=torch.float32, device=HOST)
    for l1, expected in ((False, [-2, 0, 1]), (True, [-0.5, 0, 0.5])):
        found = groups.regularised(torch.zeros_like(parameters), parameters, l1)
        assert_array_equal(found.numpy(), np.array(expected, np.float32))
