"""Places workers on the cores and memories of a machine.

    topology = read_topology()                                     the machine's cores and memories
    allowed = read_allowed()                                       the part this process may use
    plan = place_workers(topology, allowed, Request(workers=4))    cores and memory of each worker
    first = plan.workers[0]
    Popen(pinned_command(["python", "-m", "worker"], first.cpus, memory=first.memory))
    observed_binding()                                             in the worker: where it really is

The same on the command line is ``python -m affinity``. Knows nothing of training and needs nothing
but Python and Linux.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from affinity.cpulist import format_cpulist, parse_cpulist
    from affinity.errors import (
        AffinityError,
        MemoryPolicyError,
        PlacementError,
        TooManyWorkers,
        TopologyError,
    )
    from affinity.exec import pinned_command, worker_command
    from affinity.machine.memory_kind import HbmWord, parse_hbm
    from affinity.machine.read import read_machine, read_topology
    from affinity.placement.beside_gpus import with_gpu_of
    from affinity.placement.place import physical_cores, place_workers
    from affinity.placement.plan import Arena, MemoryPlan, Need, Placement, Plan, Request, Reserve
    from affinity.placement.tiles import tiles_of
    from affinity.process.allowed import AllowedResources, read_allowed
    from affinity.process.arena import Allocation, allocate, allocate_in, arena
    from affinity.process.binding import (
        ThreadBinding,
        allowed_cpus,
        bind_process,
        bind_thread,
        main_thread_mask_kept,
        pin_own_threads,
    )
    from affinity.process.escaped_memory import bring_back
    from affinity.process.mapping import place_mapping, touch
    from affinity.process.own import own_placement
    from affinity.process.shared_mapping import collapse, map_shared
    from affinity.process.thread_environment import placement_environment, thread_environment
    from affinity.process.verification import (
        ObservedBinding,
        judge,
        memory_problems,
        observed_binding,
        remarks,
    )
    from affinity.process.visible_gpus import visible_gpus
    from affinity.terms import OptionNames, options_named
    from affinity.topology import Cache, Core, Gpu, HugePages, Modes, NumaNode, SideCache, Topology

_MODULE_OF = {
    **dict.fromkeys(("format_cpulist", "parse_cpulist"), "cpulist"),
    **dict.fromkeys(
        (
            *("AffinityError", "MemoryPolicyError", "PlacementError", "TooManyWorkers"),
            "TopologyError",
        ),
        "errors",
    ),
    **dict.fromkeys(("pinned_command", "worker_command"), "exec"),
    **dict.fromkeys(("read_machine", "read_topology"), "machine.read"),
    **dict.fromkeys(("HbmWord", "parse_hbm"), "machine.memory_kind"),
    **dict.fromkeys(("physical_cores", "place_workers"), "placement.place"),
    **dict.fromkeys(("OptionNames", "options_named"), "terms"),
    **dict.fromkeys(("Arena", "MemoryPlan", "Placement", "Plan"), "placement.plan"),
    **dict.fromkeys(("Need", "Request", "Reserve"), "placement.plan"),
    "tiles_of": "placement.tiles",
    **dict.fromkeys(("Allocation", "allocate"), "process.arena"),
    **dict.fromkeys(("AllowedResources", "read_allowed"), "process.allowed"),
    **dict.fromkeys(("allocate_in", "arena"), "process.arena"),
    **dict.fromkeys(("allowed_cpus", "bind_process", "bind_thread"), "process.binding"),
    **dict.fromkeys(("place_mapping", "touch"), "process.mapping"),
    "own_placement": "process.own",
    **dict.fromkeys(
        ("ObservedBinding", "judge", "memory_problems", "observed_binding", "remarks"),
        "process.verification",
    ),
    **dict.fromkeys(("collapse", "map_shared"), "process.shared_mapping"),
    "bring_back": "process.escaped_memory",
    **dict.fromkeys(
        ("ThreadBinding", "main_thread_mask_kept", "pin_own_threads"), "process.binding"
    ),
    **dict.fromkeys(("placement_environment", "thread_environment"), "process.thread_environment"),
    **dict.fromkeys(
        ("Cache", "Core", "Gpu", "HugePages", "Modes", "NumaNode", "SideCache", "Topology"),
        "topology",
    ),
    "visible_gpus": "process.visible_gpus",
    "with_gpu_of": "placement.beside_gpus",
}

__all__ = [
    "AffinityError",
    "Allocation",
    "AllowedResources",
    "Arena",
    "Cache",
    "Core",
    "Gpu",
    "HbmWord",
    "HugePages",
    "MemoryPlan",
    "MemoryPolicyError",
    "Modes",
    "Need",
    "NumaNode",
    "ObservedBinding",
    "OptionNames",
    "Placement",
    "PlacementError",
    "Plan",
    "Request",
    "Reserve",
    "SideCache",
    "ThreadBinding",
    "TooManyWorkers",
    "Topology",
    "TopologyError",
    "allocate",
    "allocate_in",
    "allowed_cpus",
    "arena",
    "bind_process",
    "bind_thread",
    "bring_back",
    "collapse",
    "format_cpulist",
    "judge",
    "main_thread_mask_kept",
    "map_shared",
    "memory_problems",
    "observed_binding",
    "options_named",
    "own_placement",
    "parse_cpulist",
    "parse_hbm",
    "physical_cores",
    "pin_own_threads",
    "pinned_command",
    "place_mapping",
    "place_workers",
    "placement_environment",
    "read_allowed",
    "read_machine",
    "read_topology",
    "remarks",
    "thread_environment",
    "tiles_of",
    "touch",
    "visible_gpus",
    "with_gpu_of",
    "worker_command",
]


def __getattr__(name: str) -> object:
    # On demand, because every worker starts through affinity.exec and waits for this import.
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
