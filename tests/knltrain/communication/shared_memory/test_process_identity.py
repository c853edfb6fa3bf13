from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.process_identity import Sight

from ...freezers import VERSIONS, freezer

MIB = 2**20
TOUCHES_SMALL_PAGES = """
import mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]) << 20)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(memory), mmap.PAGESIZE):
    memory[at] = 1
print("touched", flush=True)
sys.stdin.read()
"""


@contextmanager
def sleeper() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that sleeps, and its identity."""
    with subprocess.Popen(["sleep", "100"]) as child:
        try:
            identity = process_identity.identity_of(child.pid)
            assert identity is not None
            yield child, identity
        finally:
            child.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_this_process_is_alive_and_does_not_stand_still() -> None:
    identity = process_identity.own_identity()
    assert process_identity.process_id(identity) == os.getpid()
    assert process_identity.is_alive(identity)
    assert process_identity.standstill(identity) is None


def test_process_with_a_reused_id_is_not_taken_for_the_old_one() -> None:
    started_before = process_identity.own_identity() - (1 << 22)
    assert process_identity.process_id(started_before) == os.getpid()
    assert not process_identity.is_alive(started_before)
    assert process_identity.standstill(started_before) is None


def test_killed_process_is_not_alive_even_before_its_parent_knows() -> None:
    with sleeper() as (child, identity):
        assert process_identity.is_alive(identity)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not process_identity.is_alive(identity)
    assert process_identity.identity_of(child.pid) is None


@pytest.mark.parametrize(
    "mebibytes", [256, pytest.param(4096, marks=[pytest.mark.long])], ids="{} MiB".format
)
def test_killed_process_is_not_alive_while_its_memory_is_freed(mebibytes: int) -> None:
    """Which takes the kernel long for small pages, and before which it tells no parent."""
    room = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if room < 2 * mebibytes * MIB:
        pytest.skip(f"too little memory is free for {mebibytes} MiB")
    # This process may be without a core itself for as long as that takes.
    assert any(_is_seen_ending_before_its_parent_is_told(mebibytes) for _ in range(5))


def _is_seen_ending_before_its_parent_is_told(mebibytes: int) -> bool:
    words = ["nice", "-n", "19", sys.executable, "-c", TOUCHES_SMALL_PAGES, str(mebibytes)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"touched\n"
        identity = process_identity.identity_of(child.pid)
        assert identity is not None
        ends, sight = os.pidfd_open(child.pid), Sight(child.pid)
        assert not sight.is_ending()
        child.kill()
        wait_until(lambda: not process_identity.is_alive(identity))
        assert sight.is_ending()
        assert sight.exit_code() == -signal.SIGKILL
        state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        told = os.waitid(os.P_PIDFD, ends, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        os.close(ends)
        sight.close()
        return state not in "ZX" and told is None


def test_process_is_alive_as_long_as_one_of_its_threads_is() -> None:
    """Also where the first thread has ended, so that the process looks like a dead one."""
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        stat = Path(f"/proc/{child.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        identity = process_identity.identity_of(child.pid)
        assert identity is not None
        child.kill()
        wait_until(lambda: not process_identity.is_alive(identity))


def test_stopped_process_is_alive() -> None:
    with sleeper() as (child, identity):
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert process_identity.standstill(identity) == "stopped (state T)"
        assert process_identity.is_alive(identity)
        child.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, child.pid, os.WCONTINUED)
        assert process_identity.standstill(identity) is None


TRACED = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).ptrace(0, 0, None, None)
os.kill(os.getpid(), signal.SIGUSR1)
"""


def test_process_that_a_debugger_holds_stands_still() -> None:
    with subprocess.Popen([sys.executable, "-c", TRACED]) as child:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)  # of this process, which is the debugger
        identity = process_identity.identity_of(child.pid)
        assert identity is not None
        assert process_identity.standstill(identity) == "stopped (state t)"
        child.kill()


PROGRAMS = {"asleep": "import time; time.sleep(100)", "at work": "while True: pass"}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("version", VERSIONS)
def test_process_whose_control_group_is_frozen_stands_still(version: str, program: str) -> None:
    with (
        freezer(version) as group,
        subprocess.Popen([sys.executable, "-c", PROGRAMS[program]]) as child,
    ):
        sight, identity = Sight(child.pid), process_identity.identity_of(child.pid)
        try:
            assert identity is not None
            group.take_in(child.pid)
            assert process_identity.standstill(identity) is None
            group.freeze()
            wait_until(lambda: process_identity.standstill(identity) is not None)
            wait_until(lambda: sight.standstill() == process_identity.standstill(identity))
            assert str(process_identity.standstill(identity)).startswith(
                "frozen by its control group"
            )
            assert process_identity.is_alive(identity)
        finally:
            sight.close()
            child.kill()
            group.thaw()


def test_exit_code_is_told_of_a_process_that_has_failed_only() -> None:
    for code, told in ((3, 3), (0, None)):
        with subprocess.Popen(
            ["sh", "-c", f"read -r _; exit {code}"], stdin=subprocess.PIPE
        ) as child:
            sight = Sight(child.pid)
            assert sight.exit_code() is None
            assert child.stdin is not None
            child.stdin.close()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert sight.exit_code() == told
            sight.close()


def test_sight_of_a_process_does_not_go_over_to_another() -> None:
    with sleeper() as (child, _):
        sight = Sight(child.pid)
        assert not sight.is_ending()
        child.kill()
        child.wait()
        assert sight.is_ending()
        assert sight.standstill() is None
        sight.close()


def test_process_without_a_core_is_told_from_one_that_sleeps() -> None:
    cpu = min(os.sched_getaffinity(0))
    words = ["taskset", "-c", str(cpu), sys.executable, "-c", PROGRAMS["at work"]]
    with sleeper() as (_, asleep), subprocess.Popen(words) as one, subprocess.Popen(words) as two:
        starved = process_identity.identity_of(one.pid)
        assert starved is not None
        before = process_identity.run_delay_seconds(starved)
        wait_until(lambda: process_identity.run_delay_seconds(starved) > before + 0.2)
        slept = process_identity.run_delay_seconds(asleep)
        wait_until(lambda: process_identity.run_delay_seconds(starved) > before + 0.4)
        assert process_identity.run_delay_seconds(asleep) - slept < 0.1
        one.kill()
        two.kill()
    assert process_identity.run_delay_seconds(starved) == 0


def test_missing_procfs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_identity, "identity_of", lambda process_id: None)
    with pytest.raises(OSError, match="procfs"):
        process_identity.own_identity()
