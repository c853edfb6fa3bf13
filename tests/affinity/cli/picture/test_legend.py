from __future__ import annotations

from dataclasses import replace

from affinity.cli.picture.blocks import Block, Words
from affinity.cli.picture.legend import legend_block
from affinity.cli.roles import cpu_roles
from affinity.placement.plan import Placement, Plan
from affinity.topology import Core, Topology


def _texts(block: Block) -> list[str]:
    return [shape.text for shape in block.shapes if isinstance(shape, Words)]


def test_legend_explains_what_is_in_the_picture_and_no_more(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    roles = cpu_roles(knights_landing, knights_plan)
    assert _texts(legend_block(knights_landing, knights_plan, roles)) == [
        "worker 0: 16 threads, memory MCDRAM 7 → DRAM 0",
        "worker 1: 18 threads, memory MCDRAM 4 → DRAM 1",
        "worker 2: 16 threads, memory MCDRAM 5 → DRAM 2",
        "worker 3: 16 threads, memory MCDRAM 6 → DRAM 3",
        "kept for the system",
        "memory taken already",
    ]


def test_legend_of_very_many_workers_is_cut(cache_mode: Topology) -> None:
    cores = tuple(Core(n, 0, 0, (n,)) for n in range(70))
    machine = replace(cache_mode, cores=cores)
    plan = Plan(workers=tuple(Placement(rank, (rank,), 1, (0,)) for rank in range(70)))
    texts = _texts(legend_block(machine, plan, cpu_roles(machine, plan)))
    assert texts[63:65] == ["worker 63: 1 thread", "and 6 further workers"]
