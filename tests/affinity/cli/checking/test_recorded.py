from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.cli.checking.recorded import MachineCheck, recorded_findings, sweep
from affinity.cli.parser import main
from affinity.errors import TopologyError

Write = Callable[..., Any]

OURS = """\
Machine (P#0 total=49152MB)
  Package L#0 (P#0)
    NUMANode L#0 (P#0 local=24576MB total=24576MB)
      Core L#0 (P#0)
        PU L#0 (P#0)
      Core L#1 (P#1)
        PU L#1 (P#1)
    NUMANode L#1 (P#1 local=24576MB total=24576MB)
      Core L#2 (P#2)
        PU L#2 (P#2)
      Core L#3 (P#3)
        PU L#3 (P#3)
"""


@pytest.fixture
def machine(write_machine: Write, tmp_path: Path) -> Any:
    """Four cores on two nodes, in an archive beside which others can write."""
    made = write_machine(tmp_path / "source", clusters=(2, 2), slit="flat")
    (tmp_path / "all").mkdir()
    with tarfile.open(tmp_path / "all/machine.tar.bz2", "w:bz2") as archive:
        archive.add(made.root, "machine")
    return made


def _seen(tmp_path: Path) -> dict[str, MachineCheck]:
    return {machine.name: machine for machine in sweep(tmp_path / "all")}


def _write(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "all" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("machine")
def test_machine_is_read_and_planned_on(tmp_path: Path) -> None:
    (seen,) = sweep(tmp_path / "all")
    words = ("4 cores, 2 nodes", "nothing beside it", "5 plans legal")
    assert seen == MachineCheck("machine.tar.bz2", "ok", words)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("name", ["machine.output", "machine.v2.xml", "machine.console.output"])
def test_what_lies_beside_it_has_to_agree(tmp_path: Path, name: str) -> None:
    _write(tmp_path, name, OURS)
    (seen,) = sweep(tmp_path / "all")
    assert (seen.verdict, seen.words[1]) == ("ok", f"agrees with {name}")
    _write(tmp_path, name, OURS.replace("PU L#2 (P#2)", "PU L#2 (P#7)"))
    (seen,) = sweep(tmp_path / "all")
    assert seen.verdict == "FAIL"
    assert f"{name}: cpus: 0-3 here, 0-1,3,7 there" in seen.words[1]


@pytest.mark.usefixtures("machine")
def test_files_of_other_names_and_texts_that_tell_no_cores_are_no_opinion(tmp_path: Path) -> None:
    numactl = "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 1 MB\n"
    _write(tmp_path, "machine.txt", numactl)
    _write(tmp_path, "machine.output", "what a test printed")
    _write(tmp_path, "another.output", OURS)
    seen = _seen(tmp_path)
    assert list(seen) == ["another.output", "machine.tar.bz2"]
    assert seen["machine.tar.bz2"].words[1] == "nothing beside it"


def test_lstopos_file_in_a_folder_of_a_machine_has_to_agree(machine: Any, tmp_path: Path) -> None:
    machine.write("lstopo-9.txt", OURS.replace("24576MB total=24576MB", "1MB total=1MB", 1))
    (seen,) = sweep(tmp_path / "source")
    assert seen.verdict == "FAIL"
    assert "lstopo-9.txt: memory of NUMA node 0: 24.00 GiB here, 1.00 MiB there" in seen.words[1]


def test_cpus_that_hwloc_left_out_as_its_captor_did_not_have_them_are_no_difference(
    machine: Any, tmp_path: Path
) -> None:
    fewer = OURS.replace("      Core L#3 (P#3)\n        PU L#3 (P#3)\n", "")
    machine.write("lstopo.txt", fewer)
    assert next(iter(sweep(tmp_path / "source"))).verdict == "FAIL"
    machine.write("proc/self/status", "Cpus_allowed_list:\t0-2")
    assert next(iter(sweep(tmp_path / "source"))).verdict == "ok"


@pytest.mark.usefixtures("machine")
def test_damage_fails_and_what_is_no_machine_does_not(tmp_path: Path) -> None:
    _write(tmp_path, "deep/er/broken.xml", "<topology>")
    _write(tmp_path, "page.xml", "<html/>")
    _write(tmp_path, "README.md", "about machines")
    seen = _seen(tmp_path)
    assert {name: machine.verdict for name, machine in seen.items()} == {
        "deep/er/broken.xml": "FAIL",
        "machine.tar.bz2": "ok",
        "page.xml": "none",
    }
    assert seen["deep/er/broken.xml"].words[0].startswith("is damaged at line 1")


def test_bad_machine_does_not_end_the_sweep(machine: Any, tmp_path: Path) -> None:
    machine.write("proc/self/status", "Cpus_allowed_list:\t0-1,,7-3")
    with tarfile.open(tmp_path / "all/bad.tar", "w") as archive:
        archive.add(machine.root, "machine")
    _write(
        tmp_path, "deep.txt", "Machine (P#0)\n" + "".join(f"{' ' * n}A\n" for n in range(1, 999))
    )
    seen = _seen(tmp_path)
    verdicts = {"bad.tar": "FAIL", "deep.txt": "FAIL", "machine.tar.bz2": "ok"}
    assert {name: machine.verdict for name, machine in seen.items()} == verdicts
    assert seen["bad.tar"].words[0].startswith("/proc/self/status: bad cpu list '0-1,,7-3'")


def test_folder_without_machines_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="holds no recorded machines: expected"):
        list(sweep(tmp_path))
    with pytest.raises(TopologyError, match=r"cannot read .*absent: No such file"):
        list(sweep(tmp_path / "absent"))


def test_one_machine_is_told_in_findings(machine: Any) -> None:
    machine.write("lstopo.txt", OURS)
    machine.write("proc/self/status", "Mems_allowed_list:\t0")
    found = {(it.level, it.subject): it.text for it in recorded_findings(machine.root)}
    assert found["ok", "machine"].endswith("4 cores")
    assert found["ok", "second opinion"] == "agrees with lstopo.txt"
    assert found["ok", "placements"] == "5 plans tried, nothing cut or given twice"
    assert "NUMA nodes 1 were not allowed" in found["warn", "machine"]


@pytest.mark.usefixtures("machine")
def test_words_print_a_line_each_and_end_with_1_if_any_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "all"
    assert main(["check", "--machines", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("ok    machine.tar.bz2  4 cores, 2 nodes; ")
    assert main(["check", "--machine", str(folder / "machine.tar.bz2")]) == 0
    assert "5 plans tried" in capsys.readouterr().out
    _write(tmp_path, "broken.xml", "<topology>")
    assert main(["check", "--machines", str(folder), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(it["name"], it["verdict"]) for it in told] == [
        ("broken.xml", "FAIL"),
        ("machine.tar.bz2", "ok"),
    ]
    assert main(["check", "--machine", str(folder / "broken.xml")]) == 2
    assert main(["check", "--machines", str(tmp_path / "absent")]) == 2


def test_one_way_to_look_excludes_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--machine", "a", "--machines", "b"])
    assert "not allowed with" in capsys.readouterr().err


def test_all_machines_that_others_described_are_read_and_agree(shared_topologies: Path) -> None:
    seen = list(sweep(shared_topologies))
    assert {machine.verdict for machine in seen} == {"ok", "none"}
    agreed = [machine.name for machine in seen if "agrees with" in " ".join(machine.words)]
    assert len(agreed) >= 5
