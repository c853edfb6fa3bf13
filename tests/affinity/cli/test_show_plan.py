from __future__ import annotations

from dataclasses import replace

import pytest

from affinity.cli.show_plan import kernel_words, show_plan
from affinity.placement.plan import Arena, MemoryPlan, Plan
from affinity.topology import Topology

GIB = 2**30


def test_plan_tells_who_gets_what_and_why(knights_landing: Topology, knights_plan: Plan) -> None:
    text = show_plan(knights_landing, knights_plan)
    lines = text.splitlines()
    assert lines[:2] == [
        "4 workers on Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz",
        "memory spill: nodes fill in the order given; nothing fails while there is memory anywhere",
    ]
    assert lines[3] == (
        "rank  cores  threads  node  memory, in this order  kernel is told    share    needs  cpus"
    )
    assert lines[6] == (
        "   1     18       18  1     MCDRAM 4 → DRAM 1      preferred 4     4.0 GiB  5.0 GiB  "
        "18-35,86-103,154-171,222-239"
    )
    assert "  rank 1  4.0 GiB in MCDRAM 4, 1.0 GiB in DRAM 1" in lines
    assert "  kept for the system: cpus 0-1,68-69,136-137,204-205" in lines
    assert "  ranks 0-3  the MCDRAM of its cluster" in lines
    assert "  rank 2     all tiles of node 2 that are left" in lines
    assert text.endswith("To note\n  * 1.0 GiB of each worker spills into DRAM")


def test_gpus_have_a_column_where_there_are_some(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    first, *others = knights_plan.workers
    plan = replace(knights_plan, workers=(replace(first, gpu="0000:3b:00.0"), *others))
    lines = show_plan(knights_landing, plan).splitlines()
    assert lines[3].endswith("GPU")
    assert lines[5].endswith("0000:3b:00.0")
    assert "GPU" not in show_plan(knights_landing, knights_plan)


def _with_memory(plan: Plan, memory: MemoryPlan) -> Plan:
    return Plan(workers=(replace(plan.workers[0], memory=memory),))


def test_bytes_without_room_are_not_passed_over(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    memory = MemoryPlan("spill", "preferred", (7,), need_bytes=5 * GIB, expected=((7, 4 * GIB),))
    text = show_plan(knights_landing, _with_memory(knights_plan, memory))
    assert "  rank 0  4.0 GiB in MCDRAM 7, 1.0 GiB nowhere" in text.splitlines()


def test_arenas_stand_with_their_own_policy(knights_landing: Topology, knights_plan: Plan) -> None:
    arenas = (Arena("weights", "bind", (7,), GIB), Arena("data", "preferred", (0,)))
    memory = MemoryPlan("split", "preferred", (0,), arenas=arenas, expected=((7, GIB),))
    lines = show_plan(knights_landing, _with_memory(knights_plan, memory)).splitlines()
    assert "  rank 0  weights 1.0 GiB in MCDRAM 7 (bind 7)" in lines
    assert "          data in DRAM 0 (preferred 0)" in lines
    assert "          together 1.0 GiB in MCDRAM 7" in lines


def test_long_orders_are_cut(knights_landing: Topology, knights_plan: Plan) -> None:
    memory = MemoryPlan("spill", "preferred", (7,), order=(7, 0, 4, 1))
    text = show_plan(knights_landing, _with_memory(knights_plan, memory))
    assert "MCDRAM 7 → DRAM 0 → …  preferred 7" in text


def test_memories_that_fill_at_once_are_not_put_in_order(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    memory = MemoryPlan("weighted", "weighted-interleave", (0, 7), order=(0, 7, 1))
    text = show_plan(knights_landing, _with_memory(knights_plan, memory))
    assert "DRAM 0 + MCDRAM 7      weighted-interleave 0,7" in text


def test_shares_are_not_shown_where_nothing_is_tied(small_vm: Topology, knights_plan: Plan) -> None:
    worker = replace(knights_plan.workers[0], cpus=(0, 1), memory=MemoryPlan(budget_bytes=GIB))
    text = show_plan(small_vm, Plan(workers=(worker,)))
    assert "share" not in text
    assert (
        text.splitlines()[1] == "memory none: left to the kernel and to what the process inherits"
    )


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (MemoryPlan(), "default"),
        (MemoryPlan("strict", "bind", (8, 9)), "bind 8-9"),
        (Arena("data", "preferred", (0,)), "preferred 0"),
    ],
)
def test_kernel_is_told_in_its_own_words(memory: MemoryPlan | Arena, words: str) -> None:
    assert kernel_words(memory) == words
