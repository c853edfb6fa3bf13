"""x"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from affinity import Request, place_workers
from affinity.machine.description import Description
from affinity.machine.inference import conclude
from affinity.machine.locality import locality
from affinity.process.allowed import AllowedResources

Describe = Callable[..., Description]

KNL_SNC4 = [  # Of a real machine: its pairs are 0-7, 1-4, 2-5 and 3-6.
    [10, 21, 21, 21, 41, 41, 41, 31],
    [21, 10, 21, 21, 31, 41, 41, 41],
    [21, 21, 10, 21, 41, 31, 41, 41],
    [21, 21, 21, 10, 41, 41, 31, 41],
    [41, 31, 41, 41, 10, 41, 41, 41],
    [41, 41, 31, 41, 41, 10, 41, 41],
    [41, 41, 41, 31, 41, 41, 10, 41],
    [31, 41, 41, 41, 41, 41, 41, 10],
]


def _near(description: Description) -> dict[int, tuple[int, ...]]:
    return {node: locality(description, node).near for node in description.nodes}


def test_memory_with_cpus_is_its_own(describe: Describe) -> None:
    found = locality(describe({0: 8, 1: 8}), 1)
    assert (found.near, found.evidence) == ((1,), "it has cpus of its own")


def test_pairs_of_xeon_phi_follow_from_the_rows_of_mcdram(describe: Describe) -> None:
    own, away = dict.fromkeys(range(4), 24), dict.fromkeys(range(4, 8), 4)
    near = _near(describe(own, away, rows=KNL_SNC4, processor="phi"))
    assert [near[node] for node in (4, 5, 6, 7)] == [(1,), (2,), (3,), (0,)]


def test_order_of_ids_does_not_matter(describe: Describe) -> None:
    # HBM has the lower ids; 0 belongs to 3 and 1 to 2.
    rows = [[10, 23, 23, 13], [23, 10, 13, 23], [23, 13, 10, 21], [13, 23, 21, 10]]
    assert _near(describe({2: 8, 3: 8}, {0: 1, 1: 1}, rows=rows)) == {
        0: (3,),
        1: (2,),
        2: (2,),
        3: (3,),
    }


def test_only_node_with_cpus_owns_all_memory(describe: Describe) -> None:
    found = locality(describe({5: 8}, {2: 1}), 2)
    assert (found.near, found.evidence) == ((5,), "no other node has cpus")


def test_initiators_count_before_distances(describe: Describe) -> None:
    rows = [[10, 21, 23], [21, 10, 13], [23, 13, 10]]
    description = describe({0: 8, 1: 8}, {2: 1}, rows=rows)
    description.nodes[2].initiators = (0,)
    description.nodes[2].initiators_source = "HMAT"
    found = locality(description, 2)
    assert found.near == (0,)
    assert found.evidence == "HMAT names the cpus of node 0"


def test_initiators_without_cpus_are_not_owners(describe: Describe) -> None:
    rows = [[10, 21, 23, 40], [21, 10, 13, 40], [23, 13, 10, 40], [40, 40, 40, 10]]
    description = describe({0: 8, 1: 8}, {2: 1, 3: 1}, rows=rows)
    description.nodes[2].initiators = (3,)
    assert locality(description, 2).near == (1,)


def test_distances_choose_among_initiators_that_are_alike(describe: Describe) -> None:
    rows = [
        [10, 12, 21, 13],
        [12, 10, 21, 14],
        [21, 21, 10, 13],
        [13, 14, 13, 10],
    ]
    description = describe({0: 8, 1: 8, 2: 8}, {3: 1}, rows=rows)
    description.nodes[3].initiators = (0, 1)
    found = locality(description, 3)
    assert found.near == (0,)
    assert "names the cpus of nodes 0-1, and it is closest to node 0 (distance 13)" in (
        found.evidence
    )


def test_ties_belong_to_all_that_are_nearest(describe: Describe) -> None:
    rows = [[10, 12, 21, 14], [12, 10, 21, 14], [21, 21, 10, 24], [14, 14, 24, 10]]
    found = locality(describe({0: 8, 1: 8, 2: 8}, {3: 1}, rows=rows), 3)
    assert found.near == (0, 1)
    assert found.evidence == "it is closest to nodes 0-1 (distance 14)"


def test_memory_as_far_from_all_belongs_to_all(describe: Describe) -> None:
    rows = [[10, 20, 20], [20, 10, 20], [20, 20, 10]]
    found = locality(describe({0: 8, 1: 8}, {2: 1}, rows=rows), 2)
    assert found.near == (0, 1)
    assert "as far from all nodes with cpus (distance 20)" in found.evidence


@pytest.mark.parametrize("rows", [[], [[10, 21, 13], [21, 10, 23], [13, 23, 10]]])
def test_memory_without_distances_belongs_to_all(
    describe: Describe, rows: Sequence[Sequence[int]]
) -> None:
    description = describe({0: 8, 1: 8}, {2: 1}, rows=rows)
    description.distances = {pair: d for pair, d in description.distances.items() if 2 not in pair}
    found = locality(description, 2)
    assert found.near == (0, 1)
    assert "nothing tells which cpus are nearest" in found.evidence


def test_a_missing_row_is_read_from_the_column(describe: Describe) -> None:
    rows = [[10, 21, 23], [21, 10, 13], [23, 13, 10]]
    description = describe({0: 8, 1: 8}, {2: 1}, rows=rows)
    description.distances = {pair: d for pair, d in description.distances.items() if pair[0] != 2}
    assert locality(description, 2).near == (1,)


def test_cpus_of_several_nodes_are_at_home_in_the_smallest_and_near_all(
    describe: Callable[..., Description],
) -> None:
    description = describe({0: 1, 1: 1, 2: 1, 3: 1}, cores=1)
    for facts in description.nodes.values():
        facts.cpus = (0, 1, 2, 3)
    topology = conclude(description)
    assert [node.cpus for node in topology.numa_nodes] == [(0, 1, 2, 3)] * 4
    assert {node.kind for node in topology.numa_nodes} == {"dram"}
    assert topology.memory_near([core.numa_node for core in topology.cores]) == topology.numa_nodes
    assert topology.modes is not None
    assert topology.modes.cluster == "unknown"
    assert any("cpus 0-3 are listed by several of the NUMA nodes 0-3" in n for n in topology.notes)
    description.nodes[2].cpus = (3,)
    topology = conclude(description)
    assert [core.numa_node for core in topology.cores] == [0, 0, 0, 2]
    assert [node.near for node in topology.numa_nodes] == [(0, 2), (0, 2), (2,), (0, 2)]


def test_plan_uses_all_memories_of_cpus_that_several_nodes_list(
    describe: Callable[..., Description],
) -> None:
    description = describe({0: 1, 1: 1}, cores=2)
    for facts in description.nodes.values():
        facts.cpus = (0, 1, 2, 3)
    topology = conclude(description)
    plan = place_workers(topology, AllowedResources(cpus=topology.cpus), Request(workers=2))
    for worker in plan.workers:
        assert set(worker.memory.order) == {0, 1}
