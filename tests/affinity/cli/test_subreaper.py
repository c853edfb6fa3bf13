from __future__ import annotations

import os
import signal
import subprocess
from typing import Protocol

import pytest

from affinity.cli.subreaper import shell_status
from affinity.process.other_process import children


class Start(Protocol):
    def __call__(self, *words: str) -> subprocess.Popen[str]: ...

    def alive(self) -> dict[int, str]: ...

    def all_gone(self) -> bool: ...


_SCRIPT = """
import os, subprocess, sys
from affinity.cli.subreaper import in_keeper
def work(lifeline):
    {work}
sys.exit(in_keeper(work))
"""
_FAMILY = (
    # A shell with a child, and a grandchild in a session of its own.
    "subprocess.Popen(['sh', '-c', 'setsid sleep 600 & sleep 600 & echo ready; wait'])\n    {then}"
)


def _keeper(start: Start, work: str) -> subprocess.Popen[str]:
    return start("-c", _SCRIPT.format(work=work))


def _ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def _child_of(pid: int) -> int:
    (child,) = children(pid)
    return child


def test_status_of_the_work_is_passed_on(start: Start) -> None:
    process = _keeper(start, "print('done'); return 7")
    assert process.communicate(timeout=60) == ("done\n", "")
    assert process.returncode == 7
    assert start.all_gone()


def test_work_that_breaks_is_shown_and_fails(start: Start) -> None:
    process = _keeper(start, "raise ValueError('broken work')")
    assert "ValueError: broken work" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


def test_processes_that_the_work_leaves_behind_are_ended(start: Start) -> None:
    process = _keeper(start, _FAMILY.format(then="return 0"))
    assert process.wait(timeout=60) == 0
    assert start.all_gone()


def test_all_end_when_the_starter_is_killed(start: Start) -> None:
    process = _keeper(start, _FAMILY.format(then="os.read(lifeline, 1); return 0"))
    _ready(process)
    assert len(start.alive()) >= 4
    process.kill()
    assert start.all_gone()


def test_all_end_when_the_keeper_is_killed(start: Start) -> None:
    process = _keeper(start, _FAMILY.format(then="os.read(lifeline, 1); return 0"))
    _ready(process)
    os.kill(_child_of(process.pid), signal.SIGKILL)
    assert process.wait(timeout=60) == 128 + signal.SIGKILL
    assert start.all_gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_work_once(number: signal.Signals, start: Start) -> None:
    work = (
        "import signal\n"
        f"    signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"
        "    print('ready', flush=True)\n"
        f"    signal.sigwait([{int(number)}])\n"
        f"    return 50 + ({int(number)} in signal.sigpending())"
    )
    process = _keeper(start, work)
    _ready(process)
    process.send_signal(number)
    assert process.wait(timeout=60) == 50


def test_signal_that_is_ignored_stays_ignored(start: Start) -> None:
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + _SCRIPT.format(
        work="print('ready', flush=True); sys.stdin.readline(); return 3"
    )
    process = start("-c", script)
    _ready(process)
    process.send_signal(signal.SIGHUP)
    process.communicate("go on\n", timeout=60)
    assert process.returncode == 3


def test_statuses_are_those_of_a_shell() -> None:
    assert shell_status(7 << 8) == 7
    assert shell_status(signal.SIGKILL) == 137
