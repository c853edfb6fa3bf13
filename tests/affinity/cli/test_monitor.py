from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from affinity import MemoryPlan, Placement, Plan, allowed_cpus, pinned_command, read_topology
from affinity.cli import monitor
from affinity.cli.monitor import Bystander
from affinity.cpulist import format_cpulist
from affinity.process.memory_policy import allowed_memories
from affinity.process.other_process import is_launching


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may run on all our cpus, leading a session."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def _plan(cpus: tuple[int, ...]) -> Plan:
    memory = MemoryPlan("spill", "preferred", allowed_memories()[:1], allowed_memories()[:1])
    return Plan((Placement(0, cpus, 1, (0,), memory=memory), Placement(1, cpus, 1, (0,))))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "FIRST_LOOK_SECONDS", 0.0)


def test_what_was_seen_of_each_rank_is_reported(sleeper: subprocess.Popen[bytes]) -> None:
    watcher = Bystander(read_topology(), _plan(allowed_cpus()))
    watcher.look({sleeper.pid: 0})
    _, _, first, second = watcher.report().splitlines()
    assert first.split()[:3] == ["0", format_cpulist(allowed_cpus()), "1"]
    assert "KiB in " in first
    assert second.split(maxsplit=1) == ["1", "ended before it was looked at"]


def test_rank_that_is_elsewhere_is_told(sleeper: subprocess.Popen[bytes]) -> None:
    if len(allowed_cpus()) < 2:
        pytest.skip("to be on more cpus than planned needs two")
    watcher = Bystander(read_topology(), _plan(allowed_cpus()[:1]))
    watcher.look({sleeper.pid: 0})
    problem = watcher.report().splitlines()[-1]
    assert problem.lstrip("* ").endswith(f"but worker 0 has {allowed_cpus()[0]}")


def test_rank_that_is_about_to_start_is_not_looked_at_yet(tmp_path: Path) -> None:
    fifo = tmp_path / "environment"
    os.mkfifo(fifo)
    command = pinned_command(["sleep", "600"], allowed_cpus())
    # Held up while it opens a file that nobody writes: Python reads sitecustomize before -m.
    (tmp_path / "sitecustomize.py").write_text(f"open({str(fifo)!r}).read()\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            watcher = Bystander(read_topology(), _plan(allowed_cpus()))
            _wait_for(lambda: is_launching(process.pid))
            watcher.look({process.pid: 0})
            assert "0  ended before it was looked at" in watcher.report()
            fifo.write_text("go on", encoding="utf-8")
            _wait_for(lambda: not is_launching(process.pid))
            watcher.next_look = 0
            watcher.look({process.pid: 0})
            assert "KiB in " in watcher.report()
        finally:
            process.kill()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_looks_are_as_rare_as_they_are_slow(sleeper: subprocess.Popen[bytes]) -> None:
    watcher = Bystander(read_topology(), _plan(allowed_cpus()))
    start = time.monotonic()
    watcher.look({sleeper.pid: 0})
    taken = time.monotonic() - start
    assert 0 < watcher.next_look - start <= 20 * taken
    watcher.next_look += 600
    watcher.look({sleeper.pid: 1})
    assert watcher.report().splitlines()[-1].endswith("ended before it was looked at")


def test_rank_that_has_ended_keeps_what_was_seen(sleeper: subprocess.Popen[bytes]) -> None:
    watcher = Bystander(read_topology(), _plan(allowed_cpus()))
    watcher.look({sleeper.pid: 0})
    before = watcher.report()
    sleeper.kill()
    sleeper.wait()
    watcher.next_look = 0
    watcher.look({sleeper.pid: 0})
    assert watcher.report() == before
