"""Workers pull on their group's center, and these on the center of all."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import Trained, rate_at, start, target, train

INNER, OUTER = 0.45, 0.45
"""0.9 / 2 workers of a group, 0.9 / 2 groups."""


def formula(steps: int, inner_period: int, outer_period: int) -> Trained:
    """Equations (5) and (6) of Zhang on both levels, in double precision, four workers."""
    locals_ = np.stack([start()] * 4).astype(np.float64)
    centers = np.stack([start()] * 2).astype(np.float64)
    center = start().astype(np.float64)
    parameters, models = [], []
    for step in range(steps):
        gradients = locals_ - np.stack([target(rank) for rank in range(4)])
        if step % inner_period == 0:
            for group in range(2):
                own = slice(2 * group, 2 * group + 2)
                pulls = INNER * (locals_[own] - centers[group])
                locals_[own] -= pulls
                centers[group] += pulls.sum(axis=0)
        if step % outer_period == 0:
            pulls = OUTER * (centers - center)
            centers -= pulls
            center = center + pulls.sum(axis=0)
        locals_ -= rate_at(step) * gradients
        parameters.append(locals_.copy())
        models.append(center.copy())
    return Trained(np.array(parameters), np.array(models))


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(("inner", "outer"), [(1, 1), (1, 2), (2, 4)])
def test_both_levels_follow_the_elastic_equations(nodes: int, inner: int, outer: int) -> None:
    found = train(
        "hierarchical_easgd",
        4,
        9,
        nodes=nodes,
        group_size=2,
        group_period=inner,
        communication_period=outer,
    )
    expected = formula(9, inner, outer)
    np.testing.assert_allclose(found.parameters, expected.parameters, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.models, expected.models, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nodes", [1, 2])
def test_result_does_not_depend_on_who_waits_when(nodes: int) -> None:
    first, *others = (
        train("hierarchical_easgd", 4, 12, nodes=nodes, group_size=2, freely=freely)
        for freely in (False, True, True)
    )
    for other in others:
        assert np.array_equal(other.parameters, first.parameters)
        assert np.array_equal(other.models[-1], first.models[-1])


def test_groups_of_a_node_and_nodes_come_to_the_same_bits() -> None:
    on_one, on_two = (train("hierarchical_easgd", 4, 12, nodes=n, group_size=2) for n in (1, 2))
    np.testing.assert_allclose(on_two.parameters, on_one.parameters, rtol=1e-5, atol=1e-6)


def test_moving_rate_that_is_given_is_that_of_both_levels() -> None:
    given = train("hierarchical_easgd", 4, 5, group_size=2, moving_rate=INNER)
    left_out = train("hierarchical_easgd", 4, 5, group_size=2)
    assert np.array_equal(given.parameters, left_out.parameters)
