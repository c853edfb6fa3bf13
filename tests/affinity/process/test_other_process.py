from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from affinity import AffinityError, MemoryPlan, Placement, allowed_cpus
from affinity.exec import worker_command
from affinity.process.memory_policy import allowed_memories
from affinity.process.other_process import (
    children,
    observe,
    placement_of,
    session_members,
)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, placed on one cpu with its memory bound to one node."""
    memory = MemoryPlan("strict", "bind", allowed_memories()[:1])
    placement = Placement(0, allowed_cpus()[:1], 1, (0,), memory=memory)
    script = "import os; print('ready', flush=True); os.read(0, 1)"
    with subprocess.Popen(
        worker_command([sys.executable, "-c", script], placement),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.send_signal(signal.SIGKILL)


def test_place_of_another_process_and_where_it_is_can_be_read(
    worker: subprocess.Popen[str],
) -> None:
    placement, observed = placement_of(worker.pid), observe(worker.pid)
    assert placement is not None
    assert observed["cpus"] == str(placement.cpus[0])
    assert observed["memory_policy"] == f"bind:{placement.memory.nodes[0]}"
    memory = observed["memory"]
    assert memory is not None
    assert list(memory["anonymous"]) == [str(placement.memory.nodes[0])]


def test_members_of_a_session_are_all_that_came_of_its_leader() -> None:
    script = "sleep 600 & sleep 600"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as leader:
        try:
            deadline = time.monotonic() + 20
            while len(found := session_members([leader.pid, 1])[leader.pid]) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert leader.pid in found
            assert os.getpid() not in found
        finally:
            os.killpg(leader.pid, signal.SIGKILL)


def test_children_are_those_of_all_threads() -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        pool.submit(subprocess.Popen, ["sleep", "600"]).result() as it,
    ):
        try:
            assert it.pid in children()
            assert os.getpid() not in children()
        finally:
            it.kill()
    assert it.pid not in children()


def test_children_are_told_while_threads_come_and_go() -> None:
    program = (
        "import threading\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    threading.Thread(target=int).start()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert not any(children(process.pid) for _ in range(2000))
        finally:
            process.kill()


def test_kernel_without_lists_of_children_tells_them_by_their_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = Path.glob
    monkeypatch.setattr(
        Path, "glob", lambda it, form: [] if "children" in form else every(it, form)
    )
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            assert process.pid in children()
            assert os.getppid() not in children()
        finally:
            process.kill()


def test_process_that_nobody_placed_has_no_place(worker: subprocess.Popen[str]) -> None:
    with subprocess.Popen(["sleep", "600"], env={}) as process:
        try:
            assert placement_of(process.pid) is None
        finally:
            process.kill()
    assert placement_of(process.pid) is None


def test_process_that_is_not_there_is_named() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(AffinityError, match=f"cannot look at process {process.pid}: No such"):
        observe(process.pid)
