from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from affinity.cli.parser import main


def _main(*words: str) -> int:
    return main(words)


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


def test_machine_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("show", "--machine", "/no/such/machine") == 2
    assert capsys.readouterr().err.startswith("error: cannot read /no/such/machine: No such file")


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
