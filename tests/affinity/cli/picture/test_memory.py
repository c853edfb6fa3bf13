from __future__ import annotations

from dataclasses import replace

from affinity.cli.picture.blocks import Rectangle, Words
from affinity.cli.picture.colours import TAKEN, worker_colour
from affinity.cli.picture.memory import bytes_on_node, memory_block
from affinity.placement.plan import MemoryPlan, Plan
from affinity.topology import Topology

GIB = 2**30


def _bars(topology: Topology, node: int, plan: Plan | None) -> list[Rectangle]:
    block = memory_block(topology, topology.node(node), plan, width=240)
    _, *bars = (shape for shape in block.shapes if isinstance(shape, Rectangle))
    return bars


def test_bar_is_named_and_distinct_for_hbm(knights_landing: Topology) -> None:
    names = {}
    for node in (0, 7):
        block = memory_block(knights_landing, knights_landing.node(node), None, width=240)
        (name,) = (shape for shape in block.shapes if isinstance(shape, Words))
        names[node] = (name.text, name.bold)
    assert names == {0: ("DRAM 0: 24.0 GiB", False), 7: ("MCDRAM 7: 4.0 GiB, 90 GB/s", True)}


def test_expected_bytes_follow_what_is_taken(knights_landing: Topology, knights_plan: Plan) -> None:
    taken, mine = _bars(knights_landing, 0, knights_plan)
    assert (taken.x, taken.width, taken.fill) == (0, 10, TAKEN)
    assert (mine.x, mine.width, mine.fill) == (10, 10, worker_colour(0))
    assert mine.told == "worker 0: 1.0 GiB"
    (full,) = _bars(knights_landing, 7, knights_plan)
    assert (full.x, full.width) == (0, 240)


def test_bar_never_overflows(knights_landing: Topology, knights_plan: Plan) -> None:
    memory = MemoryPlan("spill", "preferred", (7,), expected=((7, 9 * GIB),))
    workers = (replace(knights_plan.workers[0], memory=memory),)
    (full,) = _bars(knights_landing, 7, Plan(workers=workers))
    assert full.width == 240


def test_share_of_several_nodes_is_taken_as_they_are_free(xeon_max: Topology) -> None:
    hbm2, hbm3 = (xeon_max.node(2), replace(xeon_max.node(3), free_bytes=21 * GIB))
    machine = replace(xeon_max, numa_nodes=(*xeon_max.numa_nodes[:2], hbm2, hbm3))
    memory = MemoryPlan("spill", "preferred-many", (2, 3), budget_bytes=8 * GIB)
    assert [bytes_on_node(machine, memory, node) for node in machine.numa_nodes] == [
        0,
        0,
        6 * GIB,
        2 * GIB,
    ]


def test_share_of_full_nodes_is_nothing(xeon_max: Topology) -> None:
    full = replace(xeon_max.node(2), free_bytes=0)
    machine = replace(xeon_max, numa_nodes=(full,))
    memory = MemoryPlan("spill", "preferred", (2,), budget_bytes=GIB)
    assert bytes_on_node(machine, memory, full) == 0
