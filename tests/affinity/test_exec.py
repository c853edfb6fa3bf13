from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from affinity.errors import MemoryPolicyError
from affinity.exec import pinned_command, worker_command
from affinity.placement.plan import MemoryPlan, Placement
from affinity.process.memory_policy import allowed_memories, memory_policy, set_memory_policy
from affinity.process.thread_environment import THREAD_PLACEMENT_VARIABLES

PYTHON = [sys.executable, "-c"]
SHOW_POLICY = "from affinity.process.memory_policy import memory_policy; print(memory_policy())"


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)


def _exec(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-m", "affinity.exec", *arguments])


@pytest.fixture
def cpu() -> int:
    """The last allowed cpu, so that a mask of it alone differs from the inherited one."""
    return max(os.sched_getaffinity(0))


@pytest.fixture
def node() -> int:
    """A node whose memory this process may use, on a kernel that lets it say so."""
    try:
        set_memory_policy(*memory_policy())
    except MemoryPolicyError as error:
        pytest.skip(f"memory policies are forbidden here: {error}")
    return allowed_memories()[0]


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
        "import json\nfrom affinity.process.thread_environment import placement_environment\n"
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
        (["--cpus", "0", "--", ""], 2, "no command given"),
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


@pytest.mark.parametrize("policy", ["bind", "preferred", "interleave"])
def test_memory_policy_stands_when_the_command_starts(policy: str, cpu: int, node: int) -> None:
    result = _exec("--cpus", str(cpu), "--memory", f"{policy}:{node}", "--", *PYTHON, SHOW_POLICY)
    assert (result.stdout.strip(), result.stderr) == (f"{policy}:{node}", "")


def test_memory_plan_becomes_the_policy_of_the_command_and_of_its_children(
    cpu: int, node: int
) -> None:
    show = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW_POLICY!r}])"
    plan = MemoryPlan("strict", "bind", (node,))
    command = pinned_command([*PYTHON, show], [cpu], memory=plan)
    assert "--memory-required" in command
    assert _run(command).stdout.strip() == f"bind:{node}"


def test_policy_that_is_left_to_the_kernel_is_inherited(cpu: int, node: int) -> None:
    inner = pinned_command([*PYTHON, SHOW_POLICY], [cpu], memory=MemoryPlan("none"))
    outer = _exec("--cpus", str(cpu), "--memory", f"interleave:{node}", "--", *inner)
    assert outer.stdout.strip() == f"interleave:{node}"


@pytest.mark.parametrize(
    ("inherited", "left"), [("interleave", "default"), ("preferred", "default"), ("bind", "bind")]
)
def test_plan_that_leaves_the_nodes_to_the_kernel_keeps_only_an_inherited_limit(
    inherited: str, left: str, cpu: int, node: int
) -> None:
    inner = pinned_command([*PYTHON, SHOW_POLICY], [cpu], memory=MemoryPlan("spill"))
    outer = _exec("--cpus", str(cpu), "--memory", f"{inherited}:{node}", "--", *inner)
    policy = left if left == "default" else f"{left}:{node}"
    assert (outer.stdout.strip(), outer.stderr) == (policy, "")


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        ("bind:900", "node 900 has no memory or may not be used here"),
        ("bind", "bind takes one node or more"),
        ("binds:0", "unknown memory policy 'binds'"),
        ("bind:a", "bad cpu list 'a'"),
    ],
)
def test_memory_that_cannot_be_had_is_refused_before_the_command_runs(
    memory: str, reason: str, cpu: int, node: int
) -> None:
    result = _exec("--cpus", str(cpu), "--memory", memory, "--", "echo", "it ran")
    assert (result.returncode, result.stdout) == (2, "")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_worker_gets_cpus_counts_places_and_its_own_variables(cpu: int) -> None:
    placement = Placement(2, (cpu,), 2, (0,), cores=((cpu,), (cpu,)))
    names = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "KNL_TEST"]
    show = f"import os; print(*[os.environ.get(name) for name in {names}], os.sched_getaffinity(0))"
    roaming = _run(worker_command([*PYTHON, show], placement, {"KNL_TEST": "x"}))
    assert roaming.stdout.split() == ["2", "None", "None", "x", f"{{{cpu}}}"]
    pinned = _run(
        worker_command([*PYTHON, show], placement, {"OMP_NUM_THREADS": "1"}, pin_threads=True)
    )
    assert pinned.stdout.split()[:4] == ["1", f"{{{cpu}}},{{{cpu}}}", "close", "None"]


def test_worker_sees_the_gpus_of_its_place(cpu: int) -> None:
    placement = Placement(0, (cpu,), 1, (0,), gpu="0000:3b:00.0", visible_gpus=("GPU-b", "GPU-a"))
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    assert _run(worker_command([*PYTHON, show], placement)).stdout == "GPU-b,GPU-a\n"


def test_start_imports_neither_plans_nor_paths() -> None:
    # What the interpreter itself starts with differs: editable installations bring a finder along.
    show = "import sys; own = {*sys.modules}; import affinity.exec; print(*{*sys.modules} - own)"
    loaded = _run([*PYTHON, show]).stdout.split()
    assert "affinity.process.memory_policy" in loaded
    assert not {"affinity.placement.plan", "dataclasses", "pathlib", "json"} & set(loaded)


def test_reasons_go_where_they_are_wanted_and_that_ends_where_the_command_begins(cpu: int) -> None:
    reading, writing = os.pipe()
    script = f"import os\ntry:\n    os.fstat({writing})\nexcept OSError: print('closed')"
    commands = [
        pinned_command([sys.executable, "-c", script], [cpu], say_to=writing),
        pinned_command(["no-such-command"], [cpu], say_to=writing),
    ]
    results = [
        subprocess.run(
            command, pass_fds=[writing], capture_output=True, text=True, timeout=60, check=False
        )
        for command in commands
    ]
    os.close(writing)
    lines = os.read(reading, 4096).decode()
    os.close(reading)
    assert [(result.stdout, result.stderr) for result in results] == [("closed\n", ""), ("", "")]
    assert lines == (
        "affinity.exec: 'no-such-command' is not found: give its path or add it to PATH\n"
    )


def test_descriptor_that_is_not_open_is_refused(cpu: int) -> None:
    result = _exec("--cpus", str(cpu), "--say-to", "999", "--", "echo", "it ran")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "affinity.exec: --say-to 999: Bad file descriptor\n"
