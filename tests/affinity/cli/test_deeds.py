"""What the words do, from the first to the last byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from affinity.cli.words import main

TEXT = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 8000 MB
node 1 cpus:
node 1 size: 4000 MB
node distances:
node   0   1
  0:  10  31
  1:  31  10
"""


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "machine.txt"
    path.write_text(TEXT)
    return str(path)


def test_show_tells_of_the_machine_in_the_file(
    machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--machine", machine, "--hbm", "1"]) == 0
    shown = capsys.readouterr().out
    assert "node 1" in shown
    assert "HBM" in shown
    assert "This process may use" not in shown


def test_plan_as_json_names_cpus_and_memory_of_every_rank(
    machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--machine", machine, "--hbm", "1", "--workers", "2", "--json"]
    assert main(words) == 0
    workers = json.loads(capsys.readouterr().out)["workers"]
    assert len(workers) == 2
    assert {tuple(worker["memory"]["nodes"]) for worker in workers} == {(1,)}


def test_picture_is_written_and_named(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "machine.svg"
    assert main(["plan", "--machine", machine, "--workers", "2", "--picture", str(picture)]) == 0
    assert picture.read_text().lstrip().startswith("<")
    assert str(picture) in capsys.readouterr().out


def test_snapshot_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.tgz"
    assert main(["snapshot", str(path)]) == 0
    assert main(["show", "--machine", str(path)]) == 0
    assert main(["snapshot", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_machine_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--machine", "/nowhere/at/all"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
