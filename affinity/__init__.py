"""Where things sit: the machine's cores and memories, and the place of each worker on them.

    topology = read_topology()                                     what the machine is made of
    placements = place_workers(topology, allowed_cpus(), 4)        whose cores are whose
    Popen(pinned_command(["python", "-m", "worker"], placements[0].cpus))
    observed_binding()                                             what came of it, in the worker

Knows nothing of training and needs nothing but Python and Linux.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from affinity.binding import (
        ObservedBinding,
        ThreadBinding,
        allowed_cpus,
        bind_process,
        observed_binding,
        placement_environment,
        thread_environment,
    )
    from affinity.cpulist import format_cpulist, parse_cpulist
    from affinity.errors import AffinityError, PlacementError, TopologyError
    from affinity.exec import pinned_command
    from affinity.placement import Placement, physical_cores, place_workers
    from affinity.topology import Core, NumaNode, Topology, read_topology

_MODULE_OF = {
    **dict.fromkeys(("AffinityError", "PlacementError", "TopologyError"), "errors"),
    **dict.fromkeys(("format_cpulist", "parse_cpulist"), "cpulist"),
    **dict.fromkeys(("Core", "NumaNode", "Topology", "read_topology"), "topology"),
    **dict.fromkeys(("Placement", "physical_cores", "place_workers"), "placement"),
    **dict.fromkeys(("ObservedBinding", "ThreadBinding"), "binding"),
    **dict.fromkeys(("allowed_cpus", "bind_process", "observed_binding"), "binding"),
    **dict.fromkeys(("placement_environment", "thread_environment"), "binding"),
    "pinned_command": "exec",
}

__all__ = [
    "AffinityError",
    "Core",
    "NumaNode",
    "ObservedBinding",
    "Placement",
    "PlacementError",
    "ThreadBinding",
    "Topology",
    "TopologyError",
    "allowed_cpus",
    "bind_process",
    "format_cpulist",
    "observed_binding",
    "parse_cpulist",
    "physical_cores",
    "pinned_command",
    "place_workers",
    "placement_environment",
    "read_topology",
    "thread_environment",
]


def __getattr__(name: str) -> object:
    # On demand, because every worker starts through affinity.exec and waits for this import.
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
