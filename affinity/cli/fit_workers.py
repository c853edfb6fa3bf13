"""``--workers fit``: as many workers of a given size as there is room for inside NUMA nodes."""

from __future__ import annotations

from dataclasses import replace

from affinity.errors import PlacementError
from affinity.placement.place import physical_cores, place_workers
from affinity.placement.plan import Plan, Request
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology


def place_as_many(topology: Topology, allowed: AllowedResources, request: Request) -> Plan:
    """The plan with most workers of `request.cores_per_worker` cores, none on two NUMA nodes.

    If not even one worker fits inside a node, workers may span nodes. Raises PlacementError if no
    size is given, or there is no room for one worker.
    """
    if request.cores_per_worker is None or request.cores_per_worker < 1:
        raise PlacementError(
            "as many workers as fit: of how many cores? give --cores-per-worker 4, or so"
        )
    most = len(physical_cores(topology, allowed.cpus)) // request.cores_per_worker
    spanning: Plan | None = None
    for workers in range(max(most, 1), 0, -1):
        try:
            plan = place_workers(topology, allowed, replace(request, workers=workers))
        except PlacementError:
            if workers == 1 and spanning is None:
                raise
            continue
        if all(len(worker.numa_nodes) == 1 for worker in plan.workers):
            return plan
        spanning = spanning or plan
    assert spanning is not None  # A last worker that cannot be placed has raised.
    return spanning
