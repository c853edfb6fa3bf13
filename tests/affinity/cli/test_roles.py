from __future__ import annotations

import pytest

from affinity.cli.roles import Role, core_role, cpu_roles
from affinity.placement.plan import Placement, Plan
from affinity.topology import Core, Topology


def test_every_cpu_has_the_role_that_the_plan_gives_it(cache_mode: Topology) -> None:
    worker = Placement(0, (0,), 1, (0,), communication_cpus=(1,), data_cpus=(2,))
    assert cpu_roles(cache_mode, Plan(workers=(worker,), os_cpus=(3,))) == {
        0: Role("compute", 0),
        1: Role("communication", 0),
        2: Role("data", 0),
        3: Role("system"),
    }


def test_cpus_that_the_plan_does_not_name_may_not_be_used(cache_mode: Topology) -> None:
    worker = Placement(0, (0,), 1, (0,))
    roles = cpu_roles(cache_mode, Plan(workers=(worker,), idle_cpus=(1,)))
    assert (roles[1], roles[2]) == (Role("idle"), Role("forbidden"))


@pytest.mark.parametrize(
    ("siblings", "shown"),
    [
        (Role("communication", 3), Role("compute", 3)),
        (Role("forbidden"), Role("compute", 3)),
    ],
)
def test_core_that_computes_is_shown_so_whatever_its_siblings_do(
    siblings: Role, shown: Role
) -> None:
    roles = {0: siblings, 4: Role("compute", 3)}
    assert core_role(Core(0, 0, 0, (0, 4)), roles) == shown
