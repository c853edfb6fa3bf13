"""What a started worker is given, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from knltrain.launch.worker_process import WorkerProcess

from ..freezers import VERSIONS, freezer


def _start(log: Path, script: str, kept_fds: tuple[int, ...] = ()) -> WorkerProcess:
    return WorkerProcess(0, lambda fd: [sys.executable, "-c", script, str(fd)], log, kept_fds)


def _end(worker: WorkerProcess) -> int:
    while (code := worker.exit_code()) is None:
        pass
    return code


def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    script = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr)"
    for _ in range(2):
        with _start(log, script) as worker:
            assert _end(worker) == 0
    assert log.read_text() == "out\nerr\n" * 2


def test_a_worker_leads_a_session_of_its_own(tmp_path: Path) -> None:
    with _start(tmp_path / "log", "import time; time.sleep(600)") as worker:
        assert os.getsid(worker.pid) == worker.pid


def test_only_the_kept_descriptors_are_inherited(tmp_path: Path) -> None:
    kept, lost = os.pipe()
    script = "import os, sys; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
    with _start(tmp_path / "log", script, (kept,)) as worker:
        assert _end(worker) == 0
    os.close(kept)
    os.close(lost)
    inherited = eval((tmp_path / "log").read_text())
    assert kept in inherited
    assert lost not in inherited
    assert worker.events.fd not in inherited or worker.events.fd > max(kept, lost)


def test_leaving_kills_and_reaps(tmp_path: Path) -> None:
    with _start(tmp_path / "log", "import time; time.sleep(600)") as worker:
        pass
    assert worker.exit_code() == -9
    with pytest.raises(ChildProcessError):
        os.waitpid(worker.pid, 0)


@pytest.mark.slow
def test_process_is_held_if_it_stands_still_in_some_looks_in_a_row(tmp_path: Path) -> None:
    """One look does not tell: its group may be letting it go."""
    with _start(tmp_path / "log", "import time; time.sleep(600)") as worker:
        for _ in range(2):
            os.kill(worker.pid, signal.SIGSTOP)
            while worker.sight.standstill() is None:
                pass
            assert not worker.is_held(is_late=False)
            while not worker.is_held(is_late=False):
                time.sleep(0.01)
            os.kill(worker.pid, signal.SIGCONT)
            while worker.sight.standstill() is not None:
                pass
            assert not worker.is_held(is_late=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_leaving_does_not_wait_for_what_the_kernel_holds(tmp_path: Path, version: str) -> None:
    """A frozen process of version 1 takes even SIGKILL only once it is thawed."""
    with freezer(version) as group:
        with _start(tmp_path / "log", "import time; time.sleep(600)") as worker:
            group.take_in(worker.pid)
            group.freeze()
            while worker.sight.standstill() is None:
                pass
        assert (worker.exit_code() is None) == (version == "version 1")
        group.thaw()
        assert _end(worker) == -9


def test_a_command_that_cannot_start_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        WorkerProcess(0, lambda _: ["/no/such/program"], tmp_path / "log")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
