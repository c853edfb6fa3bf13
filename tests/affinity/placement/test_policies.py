"""x"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from affinity.errors import PlacementError
from affinity.placement.place import place_workers
from affinity.placement.plan import Need, Request
from affinity.placement.policies import beyond_limit
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

Machine = Callable[..., Topology]
GIB = 1024**3

NOTE = (
    "what exceeds the HBM of workers 0-2 goes to HBM of other workers, as long as that has room, "
    "before DRAM: the kernel counts it as nearer (worker 0: HBM node 4, then HBM nodes 5-7, then "
    "DRAM node 0); use policy 'strict', or needs that fit"
)


@pytest.fixture
def snc4(machine: Machine) -> Topology:
    """One Xeon Max in SNC-4: HBM is 13 from its own cores, 14 from the other HBM and cores.

    The kernel adds 1 for cpus and 1 for a lower id: only node 7 has no HBM before its own DRAM.
    """
    return machine(
        nodes=(4, 4, 4, 4), gib=128, hbm={4: 0, 5: 1, 6: 2, 7: 3}, hbm_gib=16, distances="max"
    )


def _notes(topology: Topology, **words: Any) -> tuple[str, ...]:
    return place_workers(topology, AllowedResources(topology.cpus), Request(**words)).notes


def test_hbm_of_others_that_fills_before_the_own_dram_is_noted(snc4: Topology) -> None:
    assert _notes(snc4, workers=4) == (NOTE,)
    assert NOTE in _notes(snc4, workers=4, needs=(Need("w", 20 * GIB),))


def test_arenas_in_hbm_spill_alike(snc4: Topology) -> None:
    assert NOTE in _notes(snc4, workers=4, policy="split", needs=(Need("w", None, "hbm"),))


def test_arenas_that_fit_beside_others_in_dram_are_not_noted(snc4: Topology) -> None:
    needs = (Need("w", 16 * GIB, "hbm"), Need("data", GIB, "dram"))
    assert NOTE not in _notes(snc4, workers=4, policy="split", needs=needs)
    needs = (Need("w", 17 * GIB, "hbm"), Need("data", GIB, "dram"))
    assert NOTE in _notes(snc4, workers=4, policy="split", needs=needs)


def test_nothing_is_noted_where_needs_fit_or_nothing_spills(snc4: Topology) -> None:
    notes = _notes(snc4, workers=4, needs=(Need("w", 16 * GIB),))
    assert NOTE not in notes
    assert all("other workers" not in note for note in notes)
    assert all("other workers" not in note for note in _notes(snc4, workers=4, policy="strict"))


def test_nothing_is_noted_where_nobody_is_near_the_hbm_of_others(snc4: Topology) -> None:
    assert _notes(snc4, workers=1, cores_per_worker=4) == (
        "allowed, but idle as no worker has them: cpus 4-15",
    )


def test_nothing_is_noted_where_the_own_dram_is_next(phi: Topology) -> None:
    assert not any("other workers" in note for note in _notes(phi, workers=4))


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
