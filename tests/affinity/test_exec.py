from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from affinity.binding import THREAD_PLACEMENT_VARIABLES
from affinity.exec import pinned_command


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)


def _exec(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-m", "affinity.exec", *arguments])


@pytest.fixture
def cpu() -> int:
    """The last allowed cpu, so that a mask of it alone differs from the inherited one."""
    return max(os.sched_getaffinity(0))


def test_mask_and_environment_stand_before_the_command_imports_anything(
    tmp_path: Path, cpu: int
) -> None:
    record = "import os; seen = (sorted(os.sched_getaffinity(0)), os.environ['KNL_TEST'])\n"
    (tmp_path / "sitecustomize.py").write_text(record, encoding="utf-8")
    show = "import json, sitecustomize; print(json.dumps(sitecustomize.seen))"
    result = _run(
        pinned_command(
            [sys.executable, "-c", show], [cpu], {"PYTHONPATH": str(tmp_path), "KNL_TEST": "a=b c"}
        )
    )
    assert result.stderr == ""
    assert json.loads(result.stdout) == [[cpu], "a=b c"]


def test_command_replaces_the_process_and_inherits_the_environment(
    monkeypatch: pytest.MonkeyPatch, cpu: int
) -> None:
    monkeypatch.setenv("KNL_INHERITED", "yes")
    show = "import os; print(os.getpid(), os.environ['KNL_INHERITED'])"
    with subprocess.Popen(
        pinned_command([sys.executable, "-c", show], [cpu]), stdout=subprocess.PIPE, text=True
    ) as process:
        output, _ = process.communicate(timeout=60)
    assert output.split() == [str(process.pid), "yes"]


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"OMP_PLACES": "{0}"}, {"OMP_PLACES": "{0}"}),
        ({"KMP_AFFINITY": "none"}, {"KMP_AFFINITY": "none"}),
        ({"OMP_NUM_THREADS": "2"}, {"GOMP_CPU_AFFINITY": "3", "OMP_PROC_BIND": "true"}),
    ],
)
def test_given_places_of_threads_replace_all_that_are_inherited(
    given: dict[str, str], seen: dict[str, str], monkeypatch: pytest.MonkeyPatch, cpu: int
) -> None:
    for name in THREAD_PLACEMENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOMP_CPU_AFFINITY", "3")
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    show = (
        "import json\nfrom affinity.binding import placement_environment\n"
        "print(json.dumps(placement_environment()))"
    )
    result = _run(pinned_command([sys.executable, "-c", show], [cpu], given))
    assert json.loads(result.stdout) == seen


def test_arguments_after_the_first_double_dash_are_the_commands_own(cpu: int) -> None:
    show = "import sys; print(sys.argv[1:])"
    result = _exec("--cpus", str(cpu), "--", sys.executable, "-c", show, "--", "--cpus", "x")
    assert result.stdout.strip() == "['--', '--cpus', 'x']"


def test_status_of_the_command_is_passed_on(cpu: int) -> None:
    assert _run(pinned_command(["sh", "-c", "exit 7"], [cpu])).returncode == 7


def test_unknown_cpu_is_refused_before_the_command_runs(cpu: int) -> None:
    result = _exec("--cpus", f"{cpu},99999", "--", "echo", "it ran")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"affinity.exec: cannot run on cpus {cpu},99999: this process")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["--cpus", "0-x", "--", "true"], 2, "bad cpu list '0-x'"),
        (["--", "true"], 2, "--cpus"),
        (["--cpus", "0"], 2, "no command given"),
        (["--cpus", "0", "--"], 2, "no command given"),
        (["--cpus", "0", "--env", "NAME", "--", "true"], 2, "'NAME' is not of the form"),
        (["--cpus", "0", "--env", "=v", "--", "true"], 2, "'=v' is not of the form"),
    ],
)
def test_bad_request_says_what_is_wrong(arguments: list[str], status: int, reason: str) -> None:
    result = _exec(*arguments)
    assert (result.returncode, result.stdout) == (status, "")
    assert reason in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_and_unrunnable_commands_end_as_in_a_shell(tmp_path: Path, cpu: int) -> None:
    missing = _run(pinned_command(["no-such-command"], [cpu]))
    assert (missing.returncode, "'no-such-command' is not found" in missing.stderr) == (127, True)
    folder = _run(pinned_command([str(tmp_path)], [cpu]))
    assert (folder.returncode, "cannot be run" in folder.stderr) == (126, True)


def test_command_does_not_start_when_its_parent_is_another(cpu: int) -> None:
    other = os.getppid()
    result = _run(pinned_command(["echo", "it ran"], [cpu], die_with_parent=other))
    assert (result.returncode, result.stdout) == (125, "")
    assert f"not {other}" in result.stderr


def test_command_dies_when_its_parent_is_killed(cpu: int) -> None:
    parent_script = (
        "import os, subprocess, sys\n"
        "from affinity.exec import pinned_command\n"
        f"command = pinned_command(['sh', '-c', 'echo $$; exec sleep 600'], [{cpu}],\n"
        "    die_with_parent=os.getpid())\n"
        "sys.exit(subprocess.call(command))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent_script], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        watched = os.pidfd_open(child)
        try:
            assert select.select([watched], [], [], 0)[0] == []
            parent.send_signal(signal.SIGKILL)
            assert select.select([watched], [], [], 30)[0] == [watched]
        finally:
            os.close(watched)
