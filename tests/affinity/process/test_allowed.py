from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from affinity.cpulist import format_cpulist
from affinity.placement.plan import Placement
from affinity.process import allowed as module
from affinity.process.allowed import AllowedResources, read_allowed
from affinity.process.memory_policy import set_memory_policy
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from affinity.process.policy import Policy

Write = Callable[[str, str], Path]
SetPolicy = Callable[[str], None]
SLURM = {"SLURM_JOB_ID": "7"}


@pytest.fixture
def machine(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """8 cpus, memory nodes 0 to 3, in a cpuset that has them all."""
    write("sys/devices/system/cpu/online", "0-7")
    write("sys/devices/system/node/has_memory", "0-3")
    write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    write("proc/self/cgroup", "0::/job")
    write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0-3")
    write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-7")
    monkeypatch.setattr(module, "allowed_cpus", lambda: tuple(range(8)))
    return tmp_path


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> SetPolicy:
    """Let the thread have a policy on nodes that this machine may not have."""

    def arrange(text: str) -> None:
        mode, _, nodes = text.partition(":")
        ids = tuple(int(node) for node in nodes.split(",") if node)
        monkeypatch.setattr(module, "memory_policy", lambda: Policy(mode, ids))

    arrange("default")
    return arrange


def test_process_that_is_free_may_use_all_and_nobody_is_named(
    machine: Path, policy: SetPolicy
) -> None:
    assert read_allowed(machine, {}) == AllowedResources(
        tuple(range(8)), (0, 1, 2, 3), None, (), ()
    )


def test_cpuset_is_named_with_what_it_leaves(
    machine: Path, policy: SetPolicy, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-3")
    write("proc/self/status", "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0")
    monkeypatch.setattr(module, "allowed_cpus", lambda: (0, 1, 2, 3))
    allowed = read_allowed(machine, {})
    assert (allowed.cpus, allowed.mems) == ((0, 1, 2, 3), (0,))
    assert allowed.said_by == (
        "cgroup v2 /job: cpus 0-3 of 0-7",
        "cgroup v2 /job: memory nodes 0 of 0-3",
    )
    assert allowed.notes == ()


def test_mask_within_the_cpuset_is_told_apart_from_it(
    machine: Path, policy: SetPolicy, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-5")
    monkeypatch.setattr(module, "allowed_cpus", lambda: (2, 3))
    assert read_allowed(machine, {}).said_by == (
        "cgroup v2 /job: cpus 0-5 of 0-7",
        "affinity mask (taskset, or a launcher): cpus 2-3 of 0-5",
    )
    bound = {**SLURM, "SLURM_CPU_BIND_TYPE": "mask_cpu:", "SLURM_CPU_BIND_LIST": "0xC"}
    assert read_allowed(machine, bound).said_by[1] == (
        "Slurm (--cpu-bind=mask_cpu:0xC): cpus 2-3 of 0-5"
    )


def test_group_that_limits_cpus_and_no_memory_is_a_note(
    machine: Path, policy: SetPolicy, write: Write
) -> None:
    write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-3")
    allowed = read_allowed(machine, {})
    assert allowed.mems == (0, 1, 2, 3)
    assert allowed.notes == (
        "cgroup v2 /job limits cpus, but no memory nodes (its cpuset.mems is not set): all of "
        "0-3 may be used, also by others on this machine",
    )


def test_memory_bound_by_slurm_narrows_the_nodes_and_the_way_out_is_told(
    machine: Path, policy: SetPolicy
) -> None:
    policy("bind:0,1")
    allowed = read_allowed(machine, {**SLURM, "SLURM_MEM_BIND_TYPE": "local"})
    assert allowed.mems == (0, 1)
    assert allowed.said_by == (
        "Slurm (--mem-bind=local): memory nodes 0-1 of 0-3 (memory policy bind:0-1)",
    )
    assert allowed.notes == (
        "Slurm (--mem-bind=local) keeps this process from memory node 2-3, which its cpuset would "
        "let it use: start with srun --mem-bind=none",
    )


@pytest.mark.parametrize(
    ("environment", "who", "way_out"),
    [
        ({}, "whoever started this process", "start without numactl --membind"),
        (SLURM, "whoever started this process", "srun --mem-bind=none"),
        (
            {PLACEMENT_VARIABLE: encode_placement(Placement(0, (0,), 1, (0,)))},
            "the placement of this process",
            "it is meant to be so",
        ),
    ],
)
def test_who_bound_the_memory_is_named_as_far_as_it_can_be_told(
    environment: dict[str, str], who: str, way_out: str, machine: Path, policy: SetPolicy
) -> None:
    policy("bind:2")
    allowed = read_allowed(machine, environment)
    assert allowed.mems == (2,)
    assert allowed.said_by[0].startswith(f"{who}: memory nodes 2 of 0-3")
    assert allowed.notes[0].endswith(way_out)


def test_policy_that_bars_nothing_is_told_all_the_same(machine: Path, policy: SetPolicy) -> None:
    policy("bind:0,1,2,3")
    allowed = read_allowed(machine, {**SLURM, "SLURM_MEM_BIND_TYPE": "local"})
    assert allowed.mems == (0, 1, 2, 3)
    assert allowed.said_by == (
        "Slurm (--mem-bind=local): memory policy bind:0-3, which leaves out no memory node",
    )
    assert allowed.notes == ()


def test_way_to_more_cpus_in_a_job_is_that_of_slurm(machine: Path, policy: SetPolicy) -> None:
    assert read_allowed(machine, {}).way_to_more_cpus == "widen the cpuset"
    assert "have Slurm give" in read_allowed(machine, SLURM).way_to_more_cpus


def test_policy_that_only_prefers_is_told_and_bars_nothing(
    machine: Path, policy: SetPolicy
) -> None:
    policy("preferred:2")
    allowed = read_allowed(machine, {})
    assert allowed.mems == (0, 1, 2, 3)
    assert allowed.said_by == (
        "whoever started this process: memory policy preferred:2, "
        "which a placement replaces, unless its policy is none",
    )


def test_quota_below_the_number_of_cpus_is_a_note(
    machine: Path, policy: SetPolicy, write: Write
) -> None:
    write("sys/fs/cgroup/job/cpu.max", "250000 100000")
    allowed = read_allowed(machine, {})
    assert allowed.cpu_quota == 2.5
    assert allowed.said_by == ("cgroup v2 /job: time of 2.5 cpus",)
    assert "threads on all 8 cpus would be stopped again and again" in allowed.notes[0]
    write("sys/fs/cgroup/job/cpu.max", "800000 100000")
    assert read_allowed(machine, {}).notes == ()


def test_memory_limit_of_the_group_is_told_with_what_it_leaves(
    machine: Path, policy: SetPolicy, write: Write
) -> None:
    write("sys/fs/cgroup/job/memory.max", str(8 << 30))
    write("sys/fs/cgroup/job/memory.current", str(2 << 30))
    write("proc/meminfo", f"MemTotal:  {64 << 20} kB")
    allowed = read_allowed(machine, {})
    assert allowed.memory_bytes == 6 << 30
    assert allowed.said_by == ("cgroup v2 /job: memory of 8.0 GiB, of which 6.0 GiB are left",)
    assert len(allowed.notes) == 1
    assert "all processes of cgroup v2 /job together may use 8.0 GiB, less than" in allowed.notes[0]
    assert "beyond the 6.0 GiB that are left the kernel kills one" in allowed.notes[0]
    write("proc/meminfo", f"MemTotal:  {4 << 20} kB")
    assert read_allowed(machine, {}).notes == ()


def test_missing_cpus_of_a_slurm_step_are_a_note(machine: Path, policy: SetPolicy) -> None:
    allowed = read_allowed(machine, {**SLURM, "SLURM_CPUS_PER_TASK": "16"})
    assert "asked for 16 cpus per task, but this process may use 8" in allowed.notes[0]


def test_kernel_without_cpusets_leaves_the_nodes_that_are_there(
    machine: Path, policy: SetPolicy, write: Write
) -> None:
    write("proc/self/status", "Name:\tx")
    allowed = read_allowed(machine, {})
    assert (allowed.cpus, allowed.mems) == (tuple(range(8)), (0, 1, 2, 3))


def test_machine_whose_files_are_hidden_has_its_mask_and_unknown_nodes(
    tmp_path: Path, policy: SetPolicy
) -> None:
    own = tuple(sorted(os.sched_getaffinity(0)))
    assert read_allowed(tmp_path, {}) == AllowedResources(own, None, None, (), ())


def test_forbidden_policies_are_a_note(machine: Path, refuse: Callable[..., None]) -> None:
    refuse("get_mempolicy", errno.EPERM)
    allowed = read_allowed(machine, {})
    assert allowed.mems == (0, 1, 2, 3)
    assert "SYS_NICE" in allowed.notes[0]


def test_this_process_may_use_what_the_kernel_says(node: int) -> None:
    last = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {last})
    set_memory_policy("bind", (node,))
    allowed = read_allowed(environment={})
    assert (allowed.cpus, allowed.mems) == ((last,), (node,))
    others = format_cpulist(os.sched_getaffinity(1) or ())
    assert f"cpus {last} of {others}" in allowed.said_by[0] or others == str(last)
