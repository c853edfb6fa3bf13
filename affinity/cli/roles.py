"""The use of every cpu under a plan, the same for text and for pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from affinity.placement.plan import Plan
from affinity.topology import Core, Topology

Use: TypeAlias = Literal["compute", "communication", "data", "system", "idle", "forbidden"]


@dataclass(frozen=True, slots=True)
class Role:
    """The use of one cpu, and the worker that it is for (None: no worker)."""

    use: Use
    rank: int | None = None


def cpu_roles(topology: Topology, plan: Plan) -> dict[int, Role]:
    """The role of each cpu of the machine; cpus that the plan does not name may not be used."""
    roles = dict.fromkeys(topology.cpus, Role("forbidden"))
    roles.update(dict.fromkeys(plan.idle_cpus, Role("idle")))
    roles.update(dict.fromkeys(plan.os_cpus, Role("system")))
    for worker in plan.workers:
        roles.update(dict.fromkeys(worker.cpus, Role("compute", worker.rank)))
        roles.update(dict.fromkeys(worker.data_cpus, Role("data", worker.rank)))
        roles.update(dict.fromkeys(worker.communication_cpus, Role("communication", worker.rank)))
    return roles


def core_role(core: Core, roles: Mapping[int, Role]) -> Role:
    """The role that a whole core is shown with: computing takes precedence."""
    order: tuple[Use, ...] = ("compute", "communication", "data", "system", "idle", "forbidden")
    return min((roles[cpu] for cpu in core.cpus), key=lambda role: order.index(role.use))
