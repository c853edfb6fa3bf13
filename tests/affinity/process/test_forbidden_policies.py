"""What a container's filter of system calls and an old kernel do, done to real processes."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from affinity.exec import pinned_command
from affinity.placement.plan import MemoryPlan
from affinity.process.kernel_call import CALL_NUMBERS
from affinity.process.memory_policy import set_memory_policy

pytestmark = pytest.mark.skipif(
    platform.machine() not in CALL_NUMBERS, reason="unknown numbers of system calls"
)

Run = Callable[..., subprocess.CompletedProcess[str]]
Filtered = Callable[..., subprocess.CompletedProcess[str]]

SHOW = (
    "import json\n"
    "from affinity.process.allowed import read_allowed\n"
    "from affinity.process.verification import observed_binding\n"
    "print(json.dumps([observed_binding()['memory_policy'], read_allowed(environment={}).notes]))"
)


@pytest.fixture
def run(under_a_filter: Filtered) -> Run:
    """Starts SHOW with this memory where calls are refused, if need be in one mode only."""

    def start(
        memory: MemoryPlan, code: int, calls: tuple[str, ...], mode: int = 0
    ) -> subprocess.CompletedProcess[str]:
        numbers = [CALL_NUMBERS[platform.machine()][call] for call in calls]
        cpus = os.sched_getaffinity(0)
        command = pinned_command([sys.executable, "-c", SHOW], cpus, memory=memory)
        return under_a_filter(command, code, numbers, mode)

    return start


POLICY_CALLS = ("set_mempolicy", "get_mempolicy", "mbind", "move_pages")


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_command_starts_where_policies_are_forbidden_and_that_is_said_once(
    code: int, node: int, run: Run
) -> None:
    result = run(MemoryPlan("spill", "preferred", (node,)), code, POLICY_CALLS)
    assert result.returncode == 0, result.stderr
    policy, notes = json.loads(result.stdout)
    assert policy is None
    assert len(notes) == 1
    assert result.stderr.count("\n") == 1
    assert f"memory policy preferred:{node} cannot be set: {errno.errorcode[code]}" in result.stderr
    assert result.stderr.endswith("going on without it\n")


def test_strict_command_does_not_start_where_policies_are_forbidden(node: int, run: Run) -> None:
    result = run(MemoryPlan("strict", "bind", (node,)), errno.EPERM, POLICY_CALLS)
    assert (result.returncode, result.stdout) == (2, "")
    assert "docker run --cap-add=SYS_NICE" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("mode", "number", "weaker"),
    [("preferred-many", 5, "preferred"), ("weighted-interleave", 6, "interleave")],
)
def test_command_starts_in_a_weaker_mode_on_an_older_kernel(
    mode: str, number: int, weaker: str, node: int, run: Run
) -> None:
    memory = MemoryPlan("weighted", mode, (node,))  # type: ignore[arg-type]
    result = run(memory, errno.EINVAL, ("set_mempolicy",), number)
    assert json.loads(result.stdout)[0] == f"{weaker}:{node}"
    assert result.stderr == (
        f"affinity.exec: this kernel does not know memory policy {mode}: {weaker}:{node} instead\n"
    )


def test_inherited_policy_that_cannot_be_dropped_is_told(
    node: int, under_a_filter: Filtered
) -> None:
    cpus = os.sched_getaffinity(0)
    show = [sys.executable, "-c", SHOW]
    numbers = [CALL_NUMBERS[platform.machine()]["set_mempolicy"]]
    set_memory_policy("interleave", (node,))
    dropping = pinned_command(show, cpus, memory=MemoryPlan("spill"))
    result = under_a_filter(dropping, errno.EPERM, numbers)
    assert json.loads(result.stdout)[0] == f"interleave:{node}"
    assert result.stderr.startswith(f"affinity.exec: interleave:{node} is inherited and stays: ")
    assert result.stderr.count("\n") == 1
    required = [*dropping[:4], "--memory-required", *dropping[4:]]
    assert under_a_filter(required, errno.EPERM, numbers).returncode == 2


def test_nothing_is_said_where_no_policy_was_asked_for_and_none_is_inherited(
    node: int, run: Run
) -> None:
    for calls in (POLICY_CALLS, ("set_mempolicy",)):
        result = run(MemoryPlan("spill"), errno.EPERM, calls)
        assert (result.returncode, result.stderr) == (0, "")
