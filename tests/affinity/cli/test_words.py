from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.cli.words import main


@pytest.fixture
def xeon_max_files(write_machine: Callable[..., Any], tmp_path: Path) -> str:
    """Files of two packages with 4 cores each and HBM, 8 GiB of DRAM and 1 GiB of HBM for each."""
    root = tmp_path / "xeon-max"
    write_machine(
        root,
        processor="xeon-max",
        packages=2,
        clusters=(4, 4),
        threads=2,
        megabytes=8192,
        memories={2: 1024, 3: 1024},
        slit="xeon-max",
    )
    return str(root)


@pytest.fixture
def numactl_text(tmp_path: Path) -> str:
    """A text of numactl -H about two nodes of 2 cpus and one without."""
    file = tmp_path / "numactl.txt"
    file.write_text(
        "available: 3 nodes (0-2)\nnode 0 cpus: 0 1\nnode 0 size: 4096 MB\nnode 0 free: 2048 MB\n"
        "node 1 cpus: 2 3\nnode 1 size: 4096 MB\nnode 1 free: 2048 MB\n"
        "node 2 cpus:\nnode 2 size: 1024 MB\nnode 2 free: 1024 MB\n"
        "node distances:\nnode 0 1 2\n 0: 10 20 17\n 1: 20 10 28\n 2: 17 28 10\n",
        encoding="utf-8",
    )
    return str(file)


def _main(*words: str) -> int:
    return main(words)


def _typed(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "affinity", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_show_tells_of_the_machine_in_a_file(
    xeon_max_files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("show", "--machine", xeon_max_files) == 0
    told, error = capsys.readouterr()
    assert error == ""
    assert told.splitlines()[:2] == [
        "Intel(R) Xeon(R) CPU Max 9480",
        "2 packages, 8 cores, 16 hardware threads (2 per core)",
    ]
    assert "This process may use" not in told


def test_show_of_this_machine_tells_what_may_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("show") == 0
    told = capsys.readouterr().out
    may_use = told[told.index("This process may use") :]
    assert f"{len(os.sched_getaffinity(0))} " in may_use.splitlines()[1]


def test_user_can_say_what_is_hbm(numactl_text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("show", "--machine", numactl_text, "--hbm", "2@1") == 0
    told = capsys.readouterr().out
    assert "├─ node 0  2 cores" not in told
    package1 = told[told.index("node 1  2 cores") :]
    assert "HBM   node 2" in package1
    assert "--hbm" in told


def test_plan_gives_each_worker_the_hbm_of_its_package(
    xeon_max_files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("plan", "--machine", xeon_max_files, "--workers", "numa", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert [worker["cpus"] for worker in plan["workers"]] == [
        [0, 1, 2, 3, 8, 9, 10, 11],
        [4, 5, 6, 7, 12, 13, 14, 15],
    ]
    memories = [worker["memory"] for worker in plan["workers"]]
    assert [(memory["mode"], memory["nodes"]) for memory in memories] == [
        ("preferred", [2]),
        ("preferred", [3]),
    ]


def test_plan_as_text_draws_the_map(
    xeon_max_files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--machine", xeon_max_files, "--workers", "2", "--nodes", "1", "--policy", "strict")
    assert _main("plan", *words) == 0
    told = capsys.readouterr().out.splitlines()
    assert "  package 0 node 0  !!!!" in told
    assert "  package 1 node 1  0011" in told
    assert any("bind 3" in line for line in told)


def test_pictures_are_written_and_named(
    xeon_max_files: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, plan = tmp_path / "machine.svg", tmp_path / "plan.svg"
    assert _main("show", "--machine", xeon_max_files, "--picture", str(machine)) == 0
    words = ("--machine", xeon_max_files, "--workers", "2", "--picture", str(plan))
    assert _main("plan", *words) == 0
    assert capsys.readouterr().out == f"wrote {machine}\nwrote {plan}\n"
    assert "worker 1:" not in machine.read_text(encoding="utf-8")
    assert "worker 1: 4 threads, memory HBM 3 → DRAM 1 → …" in plan.read_text(encoding="utf-8")


def test_machine_as_json_has_tiles_and_permissions(
    xeon_max_files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("show", "--machine", xeon_max_files, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [node["kind"] for node in told["numa_nodes"]] == ["dram", "dram", "hbm", "hbm"]
    assert told["tiles"][1] == [1, 9]
    assert told["allowed"]["mems"] is None


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("plan", "--workers", "9"), "9 workers asked for"),
        (("plan",), "how many workers?"),
        (("plan", "--workers", "2", "--policy", "strict", "--need", "w=5G"), "strict"),
        (("plan", "--workers", "2", "--cpus", "99"), "no cpus are left by --cpus 99"),
    ],
)
def test_what_cannot_be_had_is_one_line_and_status_2(
    words: tuple[str, ...], reason: str, xeon_max_files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(*words, "--machine", xeon_max_files) == 2
    told, error = capsys.readouterr()
    assert told == ""
    assert error.startswith("error: ")
    assert reason in error
    assert error.count("\n") == 1


def test_machine_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("show", "--machine", "/no/such/machine") == 2
    assert capsys.readouterr().err.startswith("error: cannot read /no/such/machine: No such file")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("plan", "--workrs", "2"), "error: unrecognized arguments: --workrs 2; see python -m aff"),
        (("shwo",), "invalid choice: 'shwo'"),
        (("plan", "--workers", "cores"), "did you mean core?; see python -m affinity plan --help"),
    ],
)
def test_mistyped_words_point_to_help(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        _main(*words)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "  plan       which cores and which memory each worker would get, and why"),
        (("plan", "--help"), "  numactl --membind=2, srun --mem-bind=map_mem   --policy strict"),
        (("snapshot", "--help"), "usage: python -m affinity snapshot FILE.tgz"),
    ],
)
def test_help_shows_where_to_begin(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        _main(*words)
    assert caught.value.code == 0
    assert line in capsys.readouterr().out.splitlines()


def test_snapshot_is_a_machine_file_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "machine.tgz"
    assert _main("snapshot", str(file)) == 0
    assert capsys.readouterr().out.endswith(f"python -m affinity show --machine {file}\n")
    assert _main("show", "--machine", str(file)) == 0
    elsewhere = capsys.readouterr().out.split("\n\n")[:2]
    assert _main("show") == 0
    here = capsys.readouterr().out.split("\n\n")[:2]
    assert elsewhere[0] == here[0]


def test_package_runs_as_a_module_without_numeric_libraries(xeon_max_files: str) -> None:
    script = (
        "import sys\nfrom affinity.cli.words import main\n"
        f"main(['show', '--machine', {xeon_max_files!r}])\n"
        "main(['plan', '--workers', '2', '--machine', sys.argv[1]])\n"
        "print([name for name in ('numpy', 'matplotlib', 'numba', 'torch') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, xeon_max_files],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert result.stdout.endswith("[]\n")
    shown = _typed("show", "--machine", xeon_max_files)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Intel(R) Xeon(R) CPU Max 9480\n")


def test_terminal_without_unicode_gets_plain_letters(xeon_max_files: str) -> None:
    shown = _typed("show", "--machine", xeon_max_files, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "`- node 0  4 cores" in shown.stdout


def test_reader_that_leaves_early_is_no_error(xeon_max_files: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        shown = subprocess.run(
            [sys.executable, "-m", "affinity", "show", "--machine", xeon_max_files],
            stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (shown.returncode, shown.stderr) == (141, "")
