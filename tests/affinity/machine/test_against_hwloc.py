"""This package's own reading of machines held against hwloc's, wherever both can be had."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from affinity.cpulist import parse_cpulist
from affinity.machine.cross_check import compare, lstopo_topology
from affinity.machine.hwloc_xml import describe_hwloc_xml
from affinity.machine.inference import conclude
from affinity.machine.read import read_machine, read_topology

GIB = 1 << 30


@pytest.mark.parametrize(
    "name",
    [
        "knl-like-snc4-flat-32cpu.linux6.1",
        "xeonmax-like-2s-cache-msc.linux6.12",
        "xeonmax-like-2s-flat-snc1-hmat.linux6.1",
        "xeonmax-like-2s-flat-snc1-hmat.linux6.12",
    ],
)
def test_capture_and_what_hwloc_said_there_agree(
    shared_topologies: Path, tmp_path: Path, name: str
) -> None:
    capture = shared_topologies / f"qemu-captures/{name}.tgz"
    with tarfile.open(capture) as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith("lstopo-2.9.0.xml"))
        file = archive.extractfile(member)
        assert file is not None
        xml = tmp_path / "lstopo.xml"
        xml.write_bytes(file.read())
    ours, theirs = read_machine(capture), read_machine(xml)
    assert compare(ours, theirs) == compare(theirs, ours) == ()
    assert [node.kind for node in theirs.numa_nodes] == [node.kind for node in ours.numa_nodes]
    assert [node.near for node in theirs.numa_nodes] == [node.near for node in ours.numa_nodes]


def test_hybrid_knights_landing_is_the_same_from_sysfs_and_from_hwloc(
    shared_topologies: Path,
) -> None:
    ours = read_machine(shared_topologies / "hwloc/64intel64-fakeKNL-SNC4-hybrid.tar.bz2")
    theirs = read_machine(shared_topologies / "hwloc/64intel64-fakeKNL-SNC4-hybrid.v2.xml")
    assert compare(ours, theirs) == compare(theirs, ours) == ()
    assert theirs.modes is not None
    assert ours.modes is not None
    assert (theirs.modes.cluster, theirs.modes.memory) == (ours.modes.cluster, ours.modes.memory)
    assert {node.id: node.near for node in theirs.numa_nodes if not node.cpus} == {
        4: (1,),
        5: (2,),
        6: (3,),
        7: (0,),
    }


needs_lstopo = pytest.mark.skipif(
    shutil.which("lstopo-no-graphics") is None, reason="hwloc's lstopo is not installed"
)


@needs_lstopo
def test_this_machine_is_as_hwloc_says(monkeypatch: pytest.MonkeyPatch) -> None:
    # Were it not kept from lstopo, it would describe this made-up machine instead.
    monkeypatch.setenv("HWLOC_SYNTHETIC", "pack:3 core:5 pu:7")
    theirs = lstopo_topology()
    assert theirs is not None
    assert re.match(r"all: lstopo-no-graphics, the XML of hwloc \d+\.\d+", theirs.sources[0])
    assert compare(read_topology(), theirs) == ()


def _written(**arguments: object) -> dict[str, object]:
    """Arguments of `write_machine`, described at the top of the conftest above."""
    return arguments


GENERATED = {
    "68 cores in uneven clusters, pairs out of order": _written(
        processor="knl",
        clusters=(18, 18, 16, 16),
        threads=4,
        tile=2,
        memories=dict.fromkeys(range(4, 8), 4096),
        near={4: 1, 5: 2, 6: 3, 7: 0},
        slit="knl",
    ),
    "16 nodes, pairs out of order": _written(
        processor="xeon-max",
        packages=2,
        clusters=8 * (12,),
        threads=2,
        l3="package",
        memories=dict.fromkeys(range(8, 16), 16_384),
        near={8 + i: i * 3 % 8 for i in range(8)},
        slit="xeon-max",
        bandwidth={**dict.fromkeys(range(8), 65_000), **dict.fromkeys(range(8, 16), 200_000)},
        latency={**dict.fromkeys(range(8), 110), **dict.fromkeys(range(8, 16), 130)},
    ),
    "ids with holes and above 9": _written(
        packages=2,
        clusters=(4, 4),
        threads=2,
        nodes=(3, 12),
        l3="package",
        memories={5: 8192, 20: 8192},
        near={5: 12, 20: 3},
        slit="xeon-max",
        bandwidth={3: 100, 12: 100, 5: 300, 20: 300},
    ),
    "HBM with a lower id than DRAM": _written(
        nodes=(1,),
        memories={0: 4096},
        slit=[[10, 20], [20, 10]],
        bandwidth={0: 300, 1: 100},
        latency={0: 130, 1: 110},
    ),
    "CXL": _written(
        packages=2,
        clusters=(4, 4),
        memories={2: 4096},
        near={2: 1},
        slit=[[10, 21, 30], [21, 10, 20], [30, 20, 10]],
        bandwidth={0: 100, 1: 100, 2: 40},
        latency={0: 100, 1: 100, 2: 250},
    ),
    "cache mode": _written(
        processor="xeon-max",
        packages=2,
        clusters=(4, 4),
        threads=2,
        megabytes=131_072,
        side_cache={0: 64 * GIB, 1: 64 * GIB},
        slit="flat",
    ),
    "4 nodes per package and small L3": _written(
        processor="amd", packages=2, clusters=8 * (6,), threads=2, l3=3, slit="flat"
    ),
    "offline cpus": _written(
        packages=2, clusters=(4, 4), threads=2, l3="node", offline=(1, 9, 5), slit="flat"
    ),
}


@needs_lstopo
@pytest.mark.parametrize("name", GENERATED)
def test_generated_machine_is_as_hwloc_says(write_machine, tmp_path: Path, name: str) -> None:
    machine = write_machine(tmp_path, **GENERATED[name])
    _add_what_hwloc_reads(machine)
    run = subprocess.run(
        ["lstopo-no-graphics", "--of", "xml", "--no-io"],
        env={**os.environ, "HWLOC_FSROOT": str(tmp_path), "HWLOC_COMPONENTS": "linux,stop"},
        capture_output=True,
        text=True,
        check=True,
    )
    ours = read_topology(tmp_path)
    theirs = conclude(describe_hwloc_xml(run.stdout, name))
    assert compare(ours, theirs) == compare(theirs, ours) == ()
    assert theirs.cpus == ours.cpus
    assert [node.kind for node in theirs.numa_nodes] == [node.kind for node in ours.numa_nodes]
    assert [node.near for node in theirs.numa_nodes] == [node.near for node in ours.numa_nodes]


def _add_what_hwloc_reads(machine) -> None:
    """hwloc reads masks where this package prefers lists, and wants to know of all nodes."""
    masks = {
        "cpulist": "cpumap",
        "thread_siblings_list": "thread_siblings",
        "shared_cpu_list": "shared_cpu_map",
    }
    for file in [file for name in masks for file in machine.root.rglob(name)]:
        mask = _mask(parse_cpulist(file.read_text()))
        file.with_name(masks[file.name]).write_text(f"{mask}\n")
    packages: defaultdict[str, list[int]] = defaultdict(list)
    for cpu, block in machine.processors.items():
        packages[block["physical id"]].append(cpu)
    for cpu, block in machine.processors.items():
        siblings = f"sys/devices/system/cpu/cpu{cpu}/topology/core_siblings"
        machine.write(siblings, _mask(packages[block["physical id"]]))
    nodes = machine.root / "sys/devices/system/node"
    listed = ",".join(sorted((folder.name[4:] for folder in nodes.glob("node*")), key=int))
    machine.write("sys/devices/system/node/online", listed)


def _mask(cpus) -> str:
    bits = sum(1 << cpu for cpu in cpus)
    words = range(max(bits.bit_length() - 1, 0) // 32, -1, -1)
    return ",".join(f"{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in words)
