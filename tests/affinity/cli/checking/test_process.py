from __future__ import annotations

import subprocess
from typing import Protocol

import pytest

from affinity import MemoryPlan, Placement
from affinity.cli.checking.process import judged_findings, process_findings, seen_findings
from affinity.process.verification import ObservedBinding


class Start(Protocol):
    def __call__(self, *words: str) -> subprocess.Popen[str]: ...


def _observed(**changes: object) -> ObservedBinding:
    observed = {
        "cpus": "0-3",
        "threads": [{"id": 1, "name": "train", "cpus": "0-3"}],
        "openmp_runtimes": [],
        "memory_policy": "bind:2",
        "memory": {"anonymous": {"2": 3 << 30}, "shared": {"2": 1 << 20}, "file": {"0": 1 << 20}},
    }
    return {**observed, **changes}  # type: ignore[typeddict-item]


_WORKER = Placement(
    0, (0, 1, 2, 3), 4, (0,), memory=MemoryPlan("strict", "bind", (2,), (2,), hbm=True)
)


def test_what_was_seen_is_told_by_part_and_node() -> None:
    told = {found.subject: found.text for found in seen_findings(_observed())}
    assert told == {
        "threads": "1 thread on cpus 0-3",
        "memory policy": "bind:2",
        "memory own": "3.0 GiB on node 2",
        "memory shared": "1.0 MiB on node 2",
        "memory of files": "1.0 MiB on node 0",
    }


def test_kernel_that_does_not_tell_is_noted() -> None:
    *_, last = seen_findings(_observed(memory=None, memory_policy=None))
    assert (last.level, last.text) == ("note", "the kernel does not tell where the pages are")


def test_process_in_its_place_is_well() -> None:
    findings = list(judged_findings(_WORKER, _observed()))
    assert [found.level for found in findings] == ["note", "ok"]
    assert findings[-1].text == "as worker 0 wants it (policy strict)"


def test_process_out_of_its_place_fails() -> None:
    memory = {"anonymous": {"0": 3 << 30}, "shared": {}, "file": {}}
    levels = [found.level for found in judged_findings(_WORKER, _observed(memory=memory))]
    assert levels[0] == "fail"
    assert "ok" not in levels


def test_running_worker_is_judged_from_outside(start: Start) -> None:
    words = ("run", "--workers", "1", "--rank", "0", "--", "sh", "-c", "echo; exec sleep 600")
    worker = start("-m", "affinity", *words)
    assert worker.stdout is not None
    worker.stdout.readline()
    check = start("-m", "affinity", "check", "--pid", str(worker.pid))
    told, error = check.communicate(timeout=60)
    assert (check.returncode, error) == (0, "")
    assert "ok    placement" in told
    assert told.splitlines()[0].startswith("ok    threads")
    worker.kill()


def test_process_without_a_place_is_only_shown() -> None:
    with subprocess.Popen(["sleep", "600"], env={}) as process:
        try:
            *_, last = process_findings(process.pid)
        finally:
            process.kill()
    assert (last.level, last.subject) == ("note", "placement")


@pytest.mark.parametrize("pid", ["0", "999999999"])
def test_process_that_is_not_there_is_bad_input(pid: str, start: Start) -> None:
    check = start("-m", "affinity", "check", "--pid", pid)
    told, error = check.communicate(timeout=60)
    assert (check.returncode, told) == (2, "")
    assert error.startswith(f"error: cannot look at process {pid}: ")
