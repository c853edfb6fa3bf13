from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from affinity.cpulist import format_cpulist
from affinity.exec import worker_command
from affinity.placement.plan import Arena, MemoryPlan, Placement
from affinity.process.memory_policy import set_memory_policy
from affinity.process.verification import (
    ObservedBinding,
    judge,
    memory_problems,
    observed_binding,
    remarks,
)

MIB = 1 << 20
PLACEMENT = Placement(1, (4, 5), 2, (1,), communication_cpus=(6,))
STRICT = MemoryPlan("strict", "bind", (3,), hbm=True)
SPILL = MemoryPlan("spill", "preferred", (3,), hbm=True)


def _observed(
    anonymous: dict[str, int] | None = None,
    shared: dict[str, int] | None = None,
    policy: str | None = "default",
    cpus: tuple[str, ...] = ("4-5",),
    runtimes: tuple[str, ...] = (),
) -> ObservedBinding:
    return {
        "cpus": cpus[0],
        "threads": [{"id": 10 + i, "name": f"t{i}", "cpus": c} for i, c in enumerate(cpus)],
        "openmp_runtimes": list(runtimes),
        "memory_policy": policy,
        "memory": {"anonymous": anonymous or {}, "shared": shared or {}, "file": {"0": 99 * MIB}},
    }


def _judged(memory: MemoryPlan, observed: ObservedBinding) -> tuple[str, ...]:
    return judge(replace(PLACEMENT, memory=memory), observed)


def test_threads_on_the_workers_own_cpus_are_right() -> None:
    assert judge(PLACEMENT, _observed(cpus=("4-5", "4", "6", "4-6"))) == ()


def test_threads_outside_are_named_with_their_cpus() -> None:
    problems = judge(PLACEMENT, _observed(cpus=("4-5", "0-7", "7", "0-7", "0-7", "0-7")))
    assert problems == (
        "thread 11 (t1), 13 (t3), 14 (t4) and 1 more may run on cpus 0-7, but worker 1 has 4-6",
        "thread 12 (t2) may run on cpus 7, but worker 1 has 4-6",
    )


@pytest.mark.parametrize("memory", [STRICT, SPILL])
def test_nothing_in_hbm_where_hbm_was_asked_for_is_a_problem(memory: MemoryPlan) -> None:
    policy = f"{memory.mode}:3"
    problems = _judged(memory, _observed({"0": 2 * MIB, "1": 90 * MIB}, {"1": MIB}, policy))
    assert problems[0] == (
        "0 % of 93.0 MiB on HBM node 3, where it was to be: 2.0 MiB on node 0, 91.0 MiB on node 1"
    )
    assert len(problems) == (2 if memory is STRICT else 1)


def test_spilled_memory_is_no_problem_as_long_as_some_is_there() -> None:
    observed = _observed({"1": 90 * MIB, "3": 30 * MIB}, policy="preferred:3")
    assert _judged(SPILL, observed) == ()
    assert remarks(replace(PLACEMENT, memory=SPILL), observed) == (
        "30.0 MiB of 120.0 MiB (25 %) on HBM node 3",
    )


def test_segment_in_hbm_counts_as_being_there() -> None:
    observed = _observed({"1": 90 * MIB}, {"3": MIB}, "preferred:3")
    assert _judged(SPILL, observed) == ()


def test_strict_allows_a_little_own_memory_elsewhere_and_no_more() -> None:
    there = {"3": 90 * MIB, "0": MIB}
    assert _judged(STRICT, _observed({**there, "1": MIB}, policy="bind:3")) == ()
    problems = _judged(STRICT, _observed({**there, "1": MIB + 4096}, policy="bind:3"))
    assert problems == (
        "2.0 MiB are not on HBM node 3, where strict wants all but 2.0 MiB: "
        "1.0 MiB on node 0, 1.0 MiB on node 1, 90.0 MiB on node 3",
    )


def test_parts_of_segments_on_other_nodes_are_other_workers_own() -> None:
    observed = _observed({"3": 90 * MIB}, {"2": 50 * MIB, "3": 50 * MIB}, "bind:3")
    assert _judged(STRICT, observed) == ()


def test_strict_needs_the_policy_that_was_asked_for_and_a_kernel_that_tells() -> None:
    there = {"3": 90 * MIB}
    assert _judged(STRICT, _observed(there, policy="preferred:3")) == (
        "memory policy bind:3 was asked for, but it is preferred:3",
    )
    hidden = _observed(policy=None)
    hidden["memory"] = None
    assert _judged(STRICT, hidden) == (
        "memory policy bind:3 was asked for, but it is not known",
        "the kernel does not tell where pages are: strict cannot be proved",
    )
    assert _judged(SPILL, hidden) == ()


def test_weaker_policy_is_a_remark_where_it_is_not_required() -> None:
    memory = MemoryPlan("weighted", "weighted-interleave", (1, 3), hbm=True)
    observed = _observed({"1": MIB, "3": MIB}, policy="interleave:1,3")
    assert _judged(memory, observed) == ()
    assert remarks(replace(PLACEMENT, memory=memory), observed) == (
        "memory policy weighted-interleave:1,3 was asked for, but it is interleave:1,3",
        "2.0 MiB of 2.0 MiB (100 %) on node 1,3",
    )


def test_interleaved_memory_must_be_on_all_of_its_nodes() -> None:
    memory = MemoryPlan("weighted", "interleave", (1, 3), hbm=True)
    assert _judged(memory, _observed({"1": MIB})) == (
        "0 % of 1.0 MiB on node 3, but interleave was asked for",
    )


def test_arena_that_is_needed_must_be_on_its_nodes() -> None:
    arenas = (
        Arena("weights", "preferred", (3,), 40 * MIB),
        Arena("data", "preferred", (1,), 9 * MIB),
        Arena("later", "preferred", (2,), None),
    )
    memory = MemoryPlan("split", "preferred", (1,), arenas=arenas)
    assert _judged(memory, _observed({"1": 90 * MIB}, policy="preferred:1")) == (
        "0 % of 90.0 MiB on node 3, where arena weights (40.0 MiB) was to be: 90.0 MiB on node 1",
    )


def test_arena_may_be_held_by_any_process_of_a_worker() -> None:
    arenas = (Arena("weights", "preferred", (3,), MIB),)
    memory = MemoryPlan("split", "preferred", (1,), arenas=arenas)
    placement = replace(PLACEMENT, memory=memory)
    shell, program = _observed({"1": MIB}), _observed({"1": MIB, "3": MIB})
    assert memory_problems(placement, shell, program) == ()
    assert memory_problems(placement, shell, shell) == (
        "0 % of 2.0 MiB on node 3, where arena weights (1.0 MiB) was to be: 2.0 MiB on node 1",
    )
    elsewhere = memory_problems(placement, shell, _observed({"3": MIB}))
    assert elsewhere == ("0 % of 1.0 MiB on node 1, where it was to be: 1.0 MiB on node 3",)


def test_policy_of_an_arena_that_the_thread_is_in_is_no_other_one() -> None:
    arenas = (Arena("weights", "preferred", (3,)),)
    memory = MemoryPlan("split", "preferred", (1,), arenas=arenas)
    observed = _observed({"1": MIB}, policy="preferred:3")
    assert remarks(replace(PLACEMENT, memory=memory), observed) == (
        "1.0 MiB of 1.0 MiB (100 %) on node 1",
    )


def test_problems_of_memory_are_told_without_those_of_threads() -> None:
    placement = replace(PLACEMENT, memory=SPILL)
    observed = _observed({"1": MIB}, cpus=("0-7",))
    assert memory_problems(placement, observed) == judge(placement, observed)[1:]
    assert len(judge(placement, observed)) == 2


def test_memory_that_is_left_to_the_kernel_may_be_anywhere() -> None:
    for memory in (MemoryPlan("none"), MemoryPlan("cache"), MemoryPlan("spill")):
        observed = _observed({"0": MIB})
        assert _judged(memory, observed) == ()
        assert remarks(replace(PLACEMENT, memory=memory), observed) == ()


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("interleave:0-1", True),
        ("preferred:3", True),
        ("bind:0", True),
        ("bind:0-1", False),
        ("local", False),
        (None, False),
    ],
)
def test_policy_where_none_was_asked_for_is_told(policy: str | None, told: bool) -> None:
    memory = MemoryPlan("spill", order=(1, 0))
    observed = _observed({"0": MIB}, policy=policy)
    line = f"memory policy default was asked for, but it is {policy}"
    assert remarks(replace(PLACEMENT, memory=memory), observed) == ((line,) if told else ())
    assert _judged(memory, observed) == ()
    assert _judged(replace(memory, policy="strict"), observed) == ((line,) if told else ())
    assert remarks(replace(PLACEMENT, memory=replace(memory, policy="none")), observed) == ()


def test_two_openmp_runtimes_are_a_remark() -> None:
    runtimes = ("/usr/lib/libgomp.so.1", "/opt/libiomp5.so")
    assert remarks(PLACEMENT, _observed(runtimes=runtimes[:1])) == ()
    (told,) = remarks(PLACEMENT, _observed(runtimes=runtimes))
    assert told.startswith("2 OpenMP runtimes")
    assert "/usr/lib/libgomp.so.1, /opt/libiomp5.so" in told


def test_observed_facts_go_through_json_and_are_those_of_the_kernel(node: int) -> None:
    set_memory_policy("bind", (node,))
    observed = observed_binding()
    assert json.loads(json.dumps(observed)) == observed
    assert observed["memory_policy"] == f"bind:{node}"
    assert observed["cpus"] == format_cpulist(os.sched_getaffinity(0))
    assert os.getpid() in [thread["id"] for thread in observed["threads"]]
    assert observed["memory"] is not None
    assert observed["memory"]["anonymous"][str(node)] > MIB
    assert sum(observed["memory"]["file"].values()) > MIB


def test_observed_cpus_are_those_of_all_threads_when_the_main_one_is_narrowed() -> None:
    whole, stop = os.sched_getaffinity(0), threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        os.sched_setaffinity(0, {min(whole)})
        assert observed_binding()["cpus"] == format_cpulist(whole)
    finally:
        stop.set()
        thread.join()


def test_started_worker_proves_its_place(node: int) -> None:
    cpu = max(os.sched_getaffinity(0))
    memory = MemoryPlan("strict", "bind", (node,))
    placement = Placement(0, (cpu,), 1, (node,), memory=memory)
    script = (
        "from affinity.process.own import own_placement\n"
        "from affinity.process.verification import judge, observed_binding\n"
        "import os\n"
        "seen = observed_binding()\n"
        "assert judge(own_placement(), seen) == (), seen\n"
        "os.sched_setaffinity(0, set(range(os.cpu_count())))\n"
        "print(len(judge(own_placement(), observed_binding())))\n"
    )
    result = subprocess.run(
        worker_command([sys.executable, "-c", script], placement),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    expected = 0 if os.cpu_count() == 1 else 1
    assert (result.stdout.strip(), result.stderr) == (str(expected), "")


def test_another_process_is_observed_without_its_policy(node: int) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            observed = observed_binding(other.pid)
        finally:
            other.kill()
    assert observed["memory_policy"] is None
    assert observed["threads"][0]["id"] == other.pid
