from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.errors import PlacementError
from affinity.placement.place import place_workers
from affinity.placement.request import Need, Request
from affinity.placement.strict import beyond_limit
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

Machine = Callable[..., Topology]
GIB = 1024**3


def _refusal(topology: Topology, request: Request, limit: int | None = None) -> str:
    allowed = AllowedResources(topology.cpus, said_by=("a cgroup",), memory_bytes=limit)
    with pytest.raises(PlacementError) as caught:
        place_workers(topology, allowed, request)
    return str(caught.value)


def test_more_than_all_together_may_use_is_refused(machine: Machine) -> None:
    request = Request(4, policy="strict", needs=(Need("w", 3 * GIB),))
    assert _refusal(machine(), request, limit=10 * GIB) == (
        "policy 'strict': 4 workers x 3.0 GiB = 12.0 GiB, but together they may use no more than "
        "10.0 GiB (a cgroup): the kernel would kill one. Way out: at most 3 workers, needs of at "
        "most 2.5 GiB, or a higher limit"
    )


def test_limit_is_checked_also_where_no_size_of_memory_is_known(machine: Machine) -> None:
    request = Request(1, policy="strict", needs=(Need("w", 3 * GIB),))
    assert "no more than 2.0 GiB" in _refusal(machine(gib=0), request, limit=2 * GIB)


def test_what_does_not_fit_even_in_place_of_cached_files_is_refused(machine: Machine) -> None:
    changes = {0: {"free_bytes": 4 * GIB, "reclaimable_bytes": 2 * GIB}}
    topology = machine(nodes=(4,), changes=changes)
    request = Request(1, policy="strict", needs=(Need("w", 7 * GIB),))
    assert _refusal(topology, request) == (
        "policy 'strict': worker 0 needs 7.0 GiB, but its share of DRAM node 0 is 6.0 GiB (4.0 GiB "
        "free and 2.0 GiB of cached files, 1 worker there): the kernel would kill it. Way out: "
        "needs of at most 6.0 GiB, or policy 'spill'"
    )


def test_needs_up_to_the_limit_are_within_it() -> None:
    allowed = AllowedResources((0,), memory_bytes=4 * GIB)
    assert beyond_limit(allowed, 2, [Need("a", GIB), Need("b", GIB)]) is None
    assert beyond_limit(allowed, 2, [Need("a", GIB), Need("b", GIB + 1)]) is not None
    assert beyond_limit(allowed, 2, [Need("a", None)]) is None
    assert beyond_limit(AllowedResources((0,)), 2, [Need("a", 1 << 60)]) is None
