from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from affinity.placement.place import place_workers
from affinity.placement.request import Need, Request
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
