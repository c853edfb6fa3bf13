from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import TopologyError
from affinity.machine.captor import NOT_ALLOWED
from affinity.machine.files import FolderFiles
from affinity.machine.read import read_machine, read_topology
from affinity.machine.snapshot import write_snapshot

Write = Callable[..., Any]


@pytest.fixture
def machine(write_machine: Write, tmp_path: Path) -> Any:
    return write_machine(tmp_path / "m", clusters=(2, 2), slit="flat")


def _notes(machine: Any) -> list[str]:
    return [note for note in read_machine(machine.root).notes if NOT_ALLOWED in note]


def test_captor_that_could_use_all_is_not_noted(machine: Any) -> None:
    assert _notes(machine) == []
    machine.write("proc/self/status", "Cpus_allowed_list:\t0-63\nMems_allowed_list:\t0-7")
    assert _notes(machine) == []


def test_status_of_the_captor_tells_what_it_could_not_use(machine: Any) -> None:
    machine.write("proc/self/status", "Name:\tcp\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0")
    assert _notes(machine) == [f"cpus 2-3 {NOT_ALLOWED}", f"NUMA nodes 1 {NOT_ALLOWED}"]
    assert read_machine(machine.root).cpus == (0, 1, 2, 3)
    assert not any(NOT_ALLOWED in note for note in read_topology(machine.root).notes)


@pytest.mark.parametrize("text", ["0-1,,7-3", "-", "9999999"])
def test_status_with_no_list_is_an_error_that_names_the_file(machine: Any, text: str) -> None:
    machine.write("proc/self/status", f"Cpus_allowed_list:\t{text}")
    with pytest.raises(TopologyError, match=r"/m/proc/self/status: bad cpu list"):
        read_machine(machine.root)


@pytest.mark.parametrize(
    ("mount", "groups", "path"),
    [
        ("none /dev/cpuset cpuset rw 0 0", "", "dev/cpuset/job/{}"),
        ("none /cg cgroup rw,cpuset,noprefix 0 0", "", "cg/job/{}"),
        ("none /cg cgroup rw,cpuset 0 0", "4:memory:/x\n3:cpu,cpuset:/job", "cg/job/cpuset.{}"),
        ("none /cg cgroup2 rw 0 0", "0::/job", "cg/job/cpuset.{}.effective"),
        ("none /cg cgroup2 rw 0 0", "", "cg/job/cpuset.{}.effective"),
        ("none /cg cgroup2 rw 0 0", "0::/../../job", "job/cpuset.{}.effective"),
    ],
)
def test_cpuset_of_the_captors_group_is_found(
    machine: Any, mount: str, groups: str, path: str
) -> None:
    machine.write("proc/mounts", f"proc /proc proc rw 0 0\nshort line\n{mount}")
    machine.write(*(("proc/self/cgroup", groups) if groups else ("proc/self/cpuset", "/job")))
    machine.write(path.format("cpus"), "1-3")
    machine.write(path.format("mems"), "0-1")
    assert _notes(machine) == [f"cpus 0 {NOT_ALLOWED}"]


def test_snapshot_keeps_what_its_captor_may_use_and_no_more_of_it(
    machine: Any, tmp_path: Path
) -> None:
    machine.write("proc/self/status", "Name:\tsecret\nUid:\t7\nCpus_allowed_list:\t0\nPid:\t3")
    write_snapshot(tmp_path / "m.tgz", FolderFiles(machine.root))
    assert [n for n in read_machine(tmp_path / "m.tgz").notes if NOT_ALLOWED in n] == [
        f"cpus 1-3 {NOT_ALLOWED}"
    ]
    with tarfile.open(tmp_path / "m.tgz") as archive:
        status = archive.extractfile("proc/self/status")
        assert status is not None
        assert status.read() == b"Cpus_allowed_list:\t0\n"
