"""A container's filter that lets nobody set, or even read, on which cpus a process may run."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from affinity.exec import pinned_command

Filtered = Callable[..., subprocess.CompletedProcess[str]]

_GENERIC = (122, 123)
CALLS = {
    "x86_64": (203, 204),
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
}
"""Numbers of sched_setaffinity and sched_getaffinity."""

pytestmark = [
    pytest.mark.skipif(platform.machine() not in CALLS, reason="unknown numbers of system calls"),
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="a mask is narrowed from two cpus on"
    ),
]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_command_that_may_not_go_to_its_cpus_does_not_start_and_says_who_forbids_it(
    code: int, under_a_filter: Filtered
) -> None:
    setting, _ = CALLS[platform.machine()]
    cpu = max(os.sched_getaffinity(0))
    result = under_a_filter(pinned_command(["echo", "it ran"], [cpu]), code, [setting])
    assert (result.returncode, result.stdout) == (2, "")
    name = errno.errorcode[code]
    assert result.stderr == (
        f"affinity.exec: cannot run on cpus {cpu}: sched_setaffinity answers {name} "
        f"({os.strerror(code)}), as a container's filter of system calls or a sandbox does: start "
        "it with a filter that allows sched_setaffinity (docker run --security-opt "
        "seccomp=PROFILE)\n"
    )


def test_command_whose_cpus_are_those_it_has_starts_all_the_same(under_a_filter: Filtered) -> None:
    setting, _ = CALLS[platform.machine()]
    command = pinned_command(["echo", "it ran"], os.sched_getaffinity(0))
    result = under_a_filter(command, errno.EPERM, [setting])
    assert (result.returncode, result.stdout, result.stderr) == (0, "it ran\n", "")


def test_cpus_that_cannot_be_read_are_an_error_that_names_the_call(
    under_a_filter: Filtered,
) -> None:
    _, reading = CALLS[platform.machine()]
    command = pinned_command(["echo", "it ran"], os.sched_getaffinity(0))
    for words in (command, [sys.executable, "-m", "affinity", "show"]):
        result = under_a_filter(words, errno.EPERM, [reading])
        assert (result.returncode, result.stdout) == (2, "")
        assert "cannot be read: sched_getaffinity answers EPERM" in result.stderr
        assert result.stderr.count("\n") == 1


def test_ranks_that_may_not_go_to_their_cpus_say_so_in_a_line_each(
    under_a_filter: Filtered,
) -> None:
    setting, _ = CALLS[platform.machine()]
    cpu = max(os.sched_getaffinity(0))
    words = ["run", "--workers", "1", "--cpus", str(cpu), "--", "echo", "it ran"]
    result = under_a_filter([sys.executable, "-m", "affinity", *words], errno.EPERM, [setting])
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    assert f"rank 0: cannot run on cpus {cpu}: sched_setaffinity answers EPERM" in result.stderr
