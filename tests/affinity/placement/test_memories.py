from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from affinity.errors import PlacementError
from affinity.placement.memories import Memories
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

Machine = Callable[..., Topology]


def _memories(topology: Topology, mems: tuple[int, ...] | None = None) -> Memories:
    return Memories(topology, AllowedResources(topology.cpus, mems, said_by=("cgroup /job",)))


def test_hbm_belongs_to_the_cores_that_it_is_near(phi: Topology) -> None:
    memories = _memories(phi)
    assert [memories.hbm([node]) for node in range(4)] == [(7,), (4,), (5,), (6,)]
    assert memories.hbm([0, 1]) == (4, 7)
    assert memories.dram([2]) == (2,)


def test_nodes_fill_as_linux_lists_them(xeon_max: Topology) -> None:
    # Seen on such a machine: DRAM 0 full, default policy: HBM 2 before the other socket's DRAM.
    memories = _memories(xeon_max)
    assert memories.order_from(0) == (0, 2, 1, 3)
    # Equally far from HBM node 2 are 1 and 3: the one without cpus comes first.
    assert memories.order_from(2) == (2, 0, 3, 1)


def test_mcdram_spills_to_the_dram_of_its_own_cluster(phi: Topology) -> None:
    assert _memories(phi).order_from(7)[:2] == (7, 0)
    assert _memories(phi).order_from(4)[:2] == (4, 1)


def test_preferred_node_brings_its_own_list_along(xeon_max: Topology) -> None:
    assert _memories(xeon_max).order("preferred", (3,), (1,)) == (3, 1, 2, 0)


def test_several_preferred_nodes_are_searched_from_the_cores(xeon_max: Topology) -> None:
    memories = _memories(xeon_max)
    assert memories.order_on("preferred-many", (2, 3), 1) == (3, 2, 1, 0)
    assert memories.order("preferred-many", (2, 3), (0, 1)) == (2, 3, 0, 1)


def test_mask_with_dram_in_it_fills_dram_first(xeon_max: Topology) -> None:
    # The trap that the policies avoid.
    assert _memories(xeon_max).order("preferred-many", (0, 2), (0,))[:2] == (0, 2)
    assert _memories(xeon_max).order("bind", (0, 2), (0,)) == (0, 2)


def test_bind_fills_nothing_else(xeon_max: Topology) -> None:
    assert _memories(xeon_max).order("bind", (2,), (0,)) == (2,)


def test_without_distances_own_package_comes_before_the_others(machine: Machine) -> None:
    topology = machine(nodes=(4, 4, 4, 4), packages=2, hbm={4: 0, 5: 1, 6: 2, 7: 3})
    assert _memories(topology).order_from(5) == (5, 1, 0, 4, 2, 3, 6, 7)


def test_nodes_with_holes_in_their_ids_keep_their_distances(machine: Machine) -> None:
    topology = machine(nodes=(2, 2), packages=2, hbm={12: 1, 30: 0}, distances="max")
    assert _memories(topology).order_from(30)[:2] == (30, 0)
    assert _memories(topology).order_from(12)[:2] == (12, 1)


def test_only_allowed_memories_count(xeon_max: Topology) -> None:
    memories = _memories(xeon_max, (0, 1, 9))
    assert memories.ids == (0, 1)
    assert memories.hbm([0]) == ()
    assert memories.order_from(0) == (0, 1)
    assert memories.hidden([0], ["hbm", "dram"]) == (2,)
    assert memories.hidden([0], ["dram"]) == ()
    assert _memories(xeon_max, (1, 2)).hidden([0], ["dram"]) == (0,)


def test_no_allowed_memory_at_all_is_refused(xeon_max: Topology) -> None:
    with pytest.raises(
        PlacementError, match=r"allowed is node 7 \(cgroup /job\), but .* nodes 0-3"
    ):
        _memories(xeon_max, (7,))


def test_cores_without_memory_of_their_own_take_the_nearest_dram(machine: Machine) -> None:
    empty = {1: {"memory_bytes": 0, "free_bytes": 0}}
    topology = machine(nodes=(4, 4, 4, 4), packages=2, distances="max", changes=empty)
    memories = _memories(topology)
    assert memories.ids == (0, 2, 3)
    assert memories.dram([1]) == (0,)


def test_machine_of_unknown_memory_sizes_keeps_its_nodes(machine: Machine) -> None:
    topology = machine(nodes=(4,), gib=0)
    assert _memories(topology).ids == (0,)


def test_memory_of_unknown_kind_is_main_memory_only_with_cpus(machine: Machine) -> None:
    changes = {0: {"kind": "unknown"}, 2: {"kind": "unknown"}}
    memories = _memories(machine(nodes=(4, 4), hbm={2: 0}, changes=changes))
    assert memories.dram([0]) == (0,)
    assert memories.hbm([0]) == ()


def test_hbm_that_has_cpus_is_the_hbm_of_these(machine: Machine) -> None:
    topology = machine(nodes=(4, 4), changes={0: {"kind": "hbm"}, 1: {"kind": "hbm"}})
    memories = _memories(topology)
    assert (memories.hbm([1]), memories.dram([1])) == ((1,), ())


def test_free_bytes_are_those_of_the_allowed_nodes(phi: Topology) -> None:
    fuller = tuple(replace(node, free_bytes=node.id) for node in phi.numa_nodes)
    assert _memories(replace(phi, numa_nodes=fuller), (3, 7)).free() == {3: 3, 7: 7}


def test_clean_pages_of_files_are_room_of_their_own(machine: Machine) -> None:
    changes = {0: {"free_bytes": 5, "reclaimable_bytes": 3}}
    memories = _memories(machine(nodes=(4,), changes=changes))
    assert (memories.free(), memories.reclaimable()) == ({0: 5}, {0: 3})
    assert memories.free_or_reclaimable() == {0: 8}


def test_dram_with_cpus_comes_before_dram_without(machine: Machine) -> None:
    topology = machine(nodes=(4, 4), hbm={2: 0}, changes={2: {"kind": "dram"}})
    assert _memories(topology).dram([0]) == (0,)
    assert _memories(topology, (1, 2)).dram([0]) == (2,)
