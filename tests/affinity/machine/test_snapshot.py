from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import AffinityError, TopologyError
from affinity.machine.archive import ArchiveFiles
from affinity.machine.files import FolderFiles
from affinity.machine.snapshot import write_snapshot
from affinity.machine.sysfs import describe_sysfs

NODE = "sys/devices/system/node"
MODULE_BYTES = 0x54


@pytest.fixture
def machine(write_machine: Callable[..., Any], tmp_path: Path) -> Any:
    """A machine that shows all that is ever read, and more."""
    machine = write_machine(
        tmp_path / "machine",
        processor="xeon-max",
        packages=2,
        clusters=(3, 3),
        threads=2,
        l3="package",
        nodes=(0, 12),
        memories={2: 1024, 14: 1024},
        slit="xeon-max",
        bandwidth={0: 260, 12: 260, 2: 700, 14: 700},
        tiers={1: (2, 14), 4: (0, 12)},
        side_cache={0: 2**30},
        huge_pages={2: {2048: (8, 4)}},
        offline=(5, 11),
    )
    machine.write("var/run/hwloc/knl_memoryside_cache", "version: 1\ncache_size: 1024")
    machine.write("sys/kernel/mm/numa/demotion_enabled", "true")
    machine.write("proc/driver/nvidia/gpus/0/numa_status", "Node: 14")
    machine.add_dax("dax0.0", 2, "hmem.0", size_bytes=2**30)
    machine.add_dax("dax1.0", 3, "hmem.1", online=False, size_bytes=2**30)
    machine.link(f"{NODE}/node12/cpu5", "sys/devices/system/cpu/cpu5")
    machine.write(f"{NODE}/node12/vmstat", "nr_free_pages 1")
    machine.write("etc/passwd", "root")
    raw = machine.root / "sys/firmware/dmi/entries/17-0/raw"
    raw.parent.mkdir(parents=True)
    raw.write_bytes(bytes([17, MODULE_BYTES]) + bytes(10) + b"\1\1" + bytes(4) + b"\x21" * 70)
    return machine


def test_snapshot_is_read_as_the_machine_itself(machine: Any, tmp_path: Path) -> None:
    files = FolderFiles(machine.root)
    write_snapshot(tmp_path / "machine.tgz", files)
    described = describe_sysfs(ArchiveFiles(tmp_path / "machine.tgz"))
    assert described == describe_sysfs(files)
    assert described.nodes[2].dax == "soft-reserved"
    assert described.nodes[2].initiators == (0,)
    assert described.nodes[14].told is not None
    assert described.nodes[12].offline_cpus == (5,)
    assert described.knights is not None
    assert described.installed == ("HBM2",)
    assert len(described.notes) == 2


def test_snapshot_holds_nothing_that_is_not_read(machine: Any, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "machine.tgz", FolderFiles(machine.root))
    with tarfile.open(tmp_path / "machine.tgz") as archive:
        members = {member.name: member for member in archive.getmembers()}
        module = archive.extractfile("sys/firmware/dmi/entries/17-0/raw")
        assert module is not None
        assert len(module.read()) == MODULE_BYTES  # and not the serial numbers after that
    assert {name.split("/")[0] for name in members} == {"sys", "proc", "var"}
    assert f"{NODE}/node12/meminfo" in members
    assert f"{NODE}/node12/vmstat" not in members
    assert {member.uname for member in members.values()} == {""}


def test_all_blocks_of_cpuinfo_are_kept(machine: Any, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "machine.tgz", FolderFiles(machine.root))
    kept = ArchiveFiles(tmp_path / "machine.tgz").read_bytes("proc/cpuinfo")
    assert kept == (machine.root / "proc/cpuinfo").read_bytes()


def test_snapshot_can_be_unpacked_by_tar_and_read_from_there(machine: Any, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "machine.tgz", FolderFiles(machine.root))
    (tmp_path / "unpacked").mkdir()
    subprocess.run(
        ["tar", "xzf", "../machine.tgz"], cwd=tmp_path / "unpacked", check=True, timeout=60
    )
    unpacked = describe_sysfs(FolderFiles(tmp_path / "unpacked"))
    assert unpacked == describe_sysfs(FolderFiles(machine.root))


def test_snapshot_of_a_snapshot_is_the_same(machine: Any, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "first.tgz", FolderFiles(machine.root))
    write_snapshot(tmp_path / "second.tgz", ArchiveFiles(tmp_path / "first.tgz"))
    assert (tmp_path / "first.tgz").read_bytes() == (tmp_path / "second.tgz").read_bytes()


def test_this_machine_is_written_and_read_back(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "own.tgz")
    described = describe_sysfs(ArchiveFiles(tmp_path / "own.tgz"))
    own = describe_sysfs(FolderFiles(Path("/")))
    assert (described.threads, described.caches) == (own.threads, own.caches)
    assert described.sources == own.sources


def test_existing_file_is_never_replaced(machine: Any, tmp_path: Path) -> None:
    path = tmp_path / "machine.tgz"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(AffinityError, match=r"machine\.tgz exists: give another name"):
        write_snapshot(path, FolderFiles(machine.root))
    assert path.read_text(encoding="utf-8") == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["machine", "machine.tgz"]


@pytest.mark.parametrize("folder", ["absent", "machine/proc/cpuinfo"])
def test_folder_that_cannot_be_written_to_is_named(
    machine: Any, tmp_path: Path, folder: str
) -> None:
    path = tmp_path / folder / "machine.tgz"
    with pytest.raises(AffinityError, match=f"cannot write {path}: No"):
        write_snapshot(path, FolderFiles(machine.root))


def test_nothing_is_written_where_no_machine_is_shown(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TopologyError, match="cannot tell the cpus"):
        write_snapshot(tmp_path / "machine.tgz", FolderFiles(tmp_path / "empty"))
    assert not (tmp_path / "machine.tgz").exists()
