from __future__ import annotations

from affinity.placement.wording import by_whom, counted, listed, named, numbered
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology


def test_numbers_and_lists_read_as_a_person_writes_them() -> None:
    assert (counted(1, "core"), counted(4, "core")) == ("1 core", "4 cores")
    assert numbered("node", []) == "no node"
    assert (numbered("worker", [3]), numbered("node", [1, 0, 2])) == ("worker 3", "nodes 0-2")
    assert (listed(["a"]), listed(["a", "b", "c"])) == ("a", "a, b and c")


def test_memories_are_named_by_kind(xeon_max: Topology, phi: Topology) -> None:
    assert named(xeon_max, (2, 3, 0)) == "HBM nodes 2-3 and DRAM node 0"
    assert named(phi, (7,)) == "MCDRAM node 7"


def test_who_restricts_stands_in_brackets() -> None:
    assert by_whom(AllowedResources((0,))) == ""
    assert by_whom(AllowedResources((0,), said_by=("Slurm", "a cgroup"))) == " (Slurm; a cgroup)"
