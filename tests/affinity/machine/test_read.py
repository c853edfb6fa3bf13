from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import NoMachine, TopologyError
from affinity.machine import files, read
from affinity.machine.files import FolderFiles
from affinity.machine.memory_kind import HbmWord
from affinity.machine.read import read_machine, read_opinions, read_topology
from affinity.machine.snapshot import write_snapshot

Machines = Callable[[str], Any]

NUMACTL = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 1024 MB
node 0 free: 512 MB
node 1 cpus:
node 1 size: 256 MB
node 1 free: 128 MB
node distances:
node   0   1
  0:  10  20
  1:  20  10
"""
DOMAIN = """\
<domain type="kvm"><vcpu>2</vcpu>
<cpu><numa><cell id="0" cpus="0-1" memory="1024" unit="MiB"/></numa></cpu></domain>
"""
HWLOC = """\
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1"
 allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1">
 <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
  complete_nodeset="0x1" local_memory="1024"/>
 <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
  complete_nodeset="0x1">
  <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
   complete_nodeset="0x1"/></object></object></topology>
"""


def _file(tmp_path: Path, content: str | bytes, name: str = "machine") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_topology_is_concluded_from_the_files_under_a_root(machine_files: Machines) -> None:
    topology = read_topology(machine_files("knights_landing").root)
    assert topology.model == "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz"
    assert topology.vendor == "GenuineIntel"
    assert topology.isa == ("avx", "avx2", "fma", "avx512f", "avx512er")
    assert [core.cpus for core in topology.cores[:2]] == [(0, 8, 16, 24), (1, 9, 17, 25)]
    assert [core.numa_node for core in topology.cores] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [node.kind for node in topology.numa_nodes] == ["dram"] * 4 + ["hbm"] * 4
    assert topology.sources[0] == "cores: /sys/devices/system/cpu"


def test_small_vm_is_one_node_of_dram(machine_files: Machines) -> None:
    topology = read_topology(machine_files("small_vm").root)
    assert topology.model == "unknown"
    assert [(node.cpus, node.kind) for node in topology.numa_nodes] == [((0, 1), "dram")]


def test_allowed_cpu_that_no_file_shows_is_a_core_of_its_own(machine_files: Machines) -> None:
    topology = read_topology(machine_files("small_vm").root, allowed=[1, 5, 7])
    assert [core.cpus for core in topology.cores] == [(0,), (1,), (5,), (7,)]


def test_this_machine_has_every_allowed_cpu_once_and_some_memory() -> None:
    topology = read_topology()
    cpus = [cpu for core in topology.cores for cpu in core.cpus]
    assert len(cpus) == len(set(cpus))
    assert os.sched_getaffinity(0) <= set(cpus)
    assert sum(node.memory_bytes for node in topology.numa_nodes) > 2**28
    assert {core.numa_node for core in topology.cores} <= {node.id for node in topology.numa_nodes}


def test_word_of_the_environment_counts_for_this_machine_alone(
    machine_files: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFFINITY_HBM_NODES", "0")
    root = machine_files("small_vm").root
    assert read_topology(root).numa_nodes[0].kind == "dram"
    assert read_topology().numa_nodes[0].kind == "hbm"
    assert read_topology(hbm=()).numa_nodes[0].kind != "hbm"


def test_word_of_the_user_counts_for_every_machine(machine_files: Machines) -> None:
    root = machine_files("small_vm").root
    assert read_topology(root, hbm=[HbmWord(0)]).numa_nodes[0].kind == "hbm"
    assert read_machine(root, hbm=[HbmWord(0)]).numa_nodes[0].kind == "hbm"


def test_folder_is_read_also_where_it_lies_one_deeper(machine_files: Machines) -> None:
    root = machine_files("two_sockets").root
    assert read_machine(root) == read_machine(root.parent) == read_topology(root)


def test_archive_is_known_by_its_content_whatever_its_name(
    machine_files: Machines, tmp_path: Path
) -> None:
    root = machine_files("two_sockets").root
    write_snapshot(tmp_path / "machine.xml", FolderFiles(root))
    with tarfile.open(tmp_path / "bare", "w") as archive:
        archive.add(root / "sys", "a/b/sys")
        archive.add(root / "proc", "a/b/proc")
    assert read_machine(tmp_path / "machine.xml") == read_topology(root)
    assert read_machine(tmp_path / "bare") == read_topology(root)


def test_text_of_numactl_is_known(tmp_path: Path) -> None:
    for text in (NUMACTL, "# a capture\r\n" + NUMACTL.replace("\n", "\r\n")):
        topology = read_machine(_file(tmp_path, text))
        assert [node.cpus for node in topology.numa_nodes] == [(0, 1, 2, 3), ()]


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\ufeff",
        "\n\n",
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- a <topology> > here -->\n<!-- twice -->\n',
        '<!DOCTYPE x SYSTEM "x.dtd">\n',
    ],
)
def test_xml_is_known_by_its_root_whatever_comes_before(tmp_path: Path, before: str) -> None:
    hwloc = before.replace("DOCTYPE x", "DOCTYPE topology") + HWLOC
    assert read_machine(_file(tmp_path, hwloc)).cpus == (0,)
    libvirt = before.replace("DOCTYPE x", "DOCTYPE domain") + DOMAIN
    assert read_machine(_file(tmp_path, libvirt)).cpus == (0, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("Architecture: x86_64\n", "is of no known format"),
        (bytes(range(256)), "is of no known format"),
        ("<html/>", "is XML about 'html'"),
        ("<!-- nothing", "is XML about 'nothing'"),
    ],
)
def test_unknown_content_is_an_error_that_names_the_known_formats(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = _file(tmp_path, content)
    with pytest.raises(TopologyError) as caught:
        read_machine(path)
    assert str(caught.value).startswith(f"{path} {said}: expected a folder or tar archive")
    assert "numactl -H" in str(caught.value)
    assert "lstopo machine.xml" in str(caught.value)


@pytest.mark.parametrize("content", [HWLOC[:300], HWLOC + "x", DOMAIN[:60], b"\x1f\x8b\x08cut"])
def test_damaged_content_is_an_error_that_names_the_file(
    tmp_path: Path, content: str | bytes
) -> None:
    path = _file(tmp_path, content)
    with pytest.raises(TopologyError, match=str(path)):
        read_machine(path)


@pytest.mark.parametrize("name", ["machine.xml", "m/sys/devices/system/cpu/online", "m/lstopo.xml"])
def test_file_that_is_too_large_for_a_machine_is_refused(
    write_machine: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    write_machine(tmp_path / "m")
    for module in (files, read):
        monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    path = tmp_path / name
    path.write_text(HWLOC + " " * (1 << 20), encoding="utf-8")
    machine = path if name == "machine.xml" else tmp_path / "m"
    with pytest.raises(TopologyError, match=rf"{path} holds more than 1 MiB"):
        read_machine(machine), list(read_opinions(machine))


def test_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"cannot read .*absent: No such file or directory; "):
        read_machine(tmp_path / "absent")


@pytest.mark.parametrize("content", [[], ["a", "b"], ["a/sys"]])
def test_folder_without_sys_and_proc_is_an_error(tmp_path: Path, content: list[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in content:
        (folder / name).mkdir(parents=True)
    with pytest.raises(TopologyError, match=r"has neither sys nor proc|cannot tell the cpus"):
        read_machine(folder)


def test_raw_cpuid_dumps_are_refused_with_the_way_out(
    tmp_path: Path, shared_topologies: Path
) -> None:
    (tmp_path / "pu0").write_text("1 2 => 3", encoding="utf-8")
    hwloc = shared_topologies / "hwloc"
    for path in (tmp_path, *sorted(hwloc.glob("cpuid-*.tar.bz2"))):
        with pytest.raises(TopologyError) as caught:
            read_machine(path)
        assert str(caught.value).startswith(f"{path} holds only raw cpuid dumps (pu0, pu1 ...)")
        assert "lstopo machine.xml" in str(caught.value)


def test_readers_of_other_formats_are_imported_only_when_needed() -> None:
    code = "import sys, affinity.machine.read as it; it.read_topology(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert "affinity.machine.sysfs" in loaded
    assert not loaded & {
        "affinity.machine.archive",
        "affinity.machine.hwloc_xml",
        "affinity.machine.libvirt_xml",
        "affinity.machine.numactl_text",
        "tarfile",
        "xml.etree",
        "xml.etree.ElementTree",
    }


@pytest.mark.parametrize("around", ["a/", "a/b/", "a/b/c/"])
def test_folder_is_read_where_its_trees_lie_deeper_as_the_archive_is(
    write_machine: Callable[..., Any], tmp_path: Path, around: str
) -> None:
    machine = write_machine(tmp_path / "unpacked" / around)
    with tarfile.open(tmp_path / "machine.tar", "w") as archive:
        archive.add(tmp_path / "unpacked", "machine")
    (tmp_path / "unpacked" / "notes").mkdir()
    expected = read_topology(machine.root)
    assert read_machine(tmp_path / "unpacked") == expected
    assert read_machine(tmp_path / "machine.tar") == expected


def test_folder_of_several_machines_names_them(
    write_machine: Callable[..., Any], tmp_path: Path
) -> None:
    for name in ("cat", "dog"):
        write_machine(tmp_path / "all" / name)
    with pytest.raises(TopologyError, match=r"all holds 2 machines \(cat, dog\)"):
        read_machine(tmp_path / "all")


def test_what_is_of_no_known_format_is_no_machine(tmp_path: Path) -> None:
    with pytest.raises(NoMachine):
        read_machine(_file(tmp_path, "hello"))


def test_opinions_in_a_capture_are_those_of_lstopo(
    write_machine: Callable[..., Any], tmp_path: Path
) -> None:
    machine = write_machine(tmp_path / "m", clusters=(1,))
    machine.write("lstopo-2.9.xml", HWLOC)
    machine.write("lstopo.txt", "no tree")
    machine.write("other.xml", HWLOC)
    ((name, theirs),) = read_opinions(tmp_path / "m")
    assert (name, theirs.cpus) == ("lstopo-2.9.xml", (0,))
