from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine.cross_check import compare
from affinity.machine.hwloc_xml import NO_CORES
from affinity.machine.inference import conclude
from affinity.machine.lstopo_text import describe_lstopo
from affinity.machine.read import read_machine
from affinity.topology import Topology

NESTED = """\
Machine (P#0 total=3145728KB DMIProductName="A + B (2)" Backend=Linux Architecture=ia64)
  NUMANode L#0 (P#0 local=2097152KB total=2097152KB)
    Package L#0 (P#1 CPUVendor=GenuineIntel CPUFamilyNumber=6 CPUModel="Xeon  @ 2 + 1 GHz")
      L3Cache L#0 (size=6144KB linesize=64 ways=12)
        L2dCache L#0 (size=256KB linesize=128 ways=8)
          L1iCache L#0 (size=16KB linesize=64 ways=4)
            Core L#0 (P#0)
              PU L#0 (P#0)
              PU L#1 (P#4)
            Core L#1 (P#1)
              PU L#2 (P#1)
  NUMANode L#1 (P#16 local=1048576KB total=1048576KB)
depth 0:\t1 Machine (type #1)
 depth 1:\t2 NUMANode (type #2)
2 processors not represented in topology: 0x00000028
Topology not from this system
"""
BESIDE = """\
Machine (P#0 total=3GiB)
  Package L#0 (P#0 total=3GiB)
    Group0(Cluster) L#0 (total=2GiB)
      NUMANode(DRAM) L#0 (P#0 local=1GiB total=1GiB)
      NUMANode(HBM) L#1 (P#2 local=512MiB total=512MiB)
      L3Cache(MemorySideCache) L#0 (P#0 size=16MiB linesize=64)
        Core L#0 (P#0)
          PU L#0 (P#0)
    Group0(Cluster) L#1 (total=2GiB)
      NUMANode(DRAM) L#2 (P#1 local=1GiB total=1GiB)
      NUMANode(HBM) L#3 (P#3 local=512MiB total=512MiB)
      Core L#1 (P#1)
        PU L#1 (P#1)
      Memory(SPM) L#0 (DAXType=SPM DAXParent=hmem.0 Size=524288) "dax0.0"
Special depth -3:   4 NUMANode (type #13)
"""
SHORT = """\
Machine (15GB total)
  Package L#0
    NUMANode L#0 (P#0 15GB)
    L3 L#0 (8192KB)
      L2 L#0 (256KB) + L1d L#0 (32KB) + L1i L#0 (32KB) + Core L#0
        PU L#0 (P#0)
        PU L#1 (P#2)
      L2 L#1 (256KB) + L1d L#1 (32KB) + L1i L#1 (32KB) + Core L#1 + PU L#2 (P#1)
"""


def _read(text: str) -> Topology:
    return conclude(describe_lstopo(text, "lstopo.txt"))


def test_nodes_around_their_cores_are_read_as_hwloc_1_prints_them() -> None:
    topology = _read(NESTED)
    assert [core.cpus for core in topology.cores] == [(0, 4), (1,)]
    assert [core.package for core in topology.cores] == [1, 1]
    assert [(node.id, node.cpus, node.memory_bytes) for node in topology.numa_nodes] == [
        (0, (0, 1, 4), 2 << 30),
        (16, (), 1 << 30),
    ]
    assert topology.model == "Xeon  @ 2 + 1 GHz"
    assert topology.offline_cpus == (3, 5)
    caches = {(cache.level, cache.kind, cache.size_bytes) for cache in topology.caches}
    assert caches == {
        (3, "unified", 6 << 20),
        (2, "data", 256 << 10),
        (1, "instruction", 16 << 10),
    }
    assert topology.sources == ("all: lstopo.txt, the text of lstopo",)
    assert not any("XML" in note for note in topology.notes)
    assert "hwloc does not tell how much memory is free: all of it counts as free" in topology.notes


def test_memories_beside_cores_are_near_to_them_as_hwloc_2_prints_them() -> None:
    topology = _read(BESIDE)
    assert [(n.id, n.kind, n.cpus, n.near) for n in topology.numa_nodes] == [
        (0, "dram", (0,), (0,)),
        (1, "dram", (1,), (1,)),
        (2, "hbm", (), (0,)),
        (3, "hbm", (), (1,)),
    ]
    assert topology.node(0).side_caches[0].size_bytes == 16 << 20
    assert topology.caches == ()


def test_devices_and_what_was_forbidden_change_nothing() -> None:
    lines = BESIDE.splitlines(keepends=True)
    devices = [
        "  HostBridge L#0 (buses=0000:[00-07])\n",
        "    PCI 01:00.0 (Ethernet)\n",
        '      Net "eth0"\n',
        "    PCI L#3 (busid=0000:01:00.0 id=8086:10e8 class=0200(Ethernet) link=2.00GB/s)\n",
        '    3 x { PCI L#3-5 (busid=0b:00.1-3 PCIVendor="Cisco" PCIDevice="VIC") }\n',
        '    Co-Processor(VectorEngine) L#0 (VectorEngineCores=8) "ve0"\n',
        '    Block(Disk) L#1 (Size=5 LinuxDeviceID=8:0) "sda"\n',
    ]
    text = "".join((*lines[:-1], *devices, lines[-1]))
    assert _read(text.replace("PU L#1 (P#1)", "PU L#1 (P#1) (forbidden)")) == _read(BESIDE)


def test_memory_at_the_machine_has_no_cpus_where_others_are_deeper() -> None:
    beside = BESIDE.splitlines(keepends=True)
    far = "  NUMANode(NVM) L#9 (P#9 local=1GiB total=1GiB)\n"
    topology = _read("".join((beside[0], far, *beside[1:])))
    assert (topology.node(9).cpus, topology.node(9).near) == ((), (0, 1))
    assert topology.node(0).cpus == (0,)


def test_short_form_is_read_with_what_its_plus_signs_join() -> None:
    topology = _read(SHORT)
    assert [core.cpus for core in topology.cores] == [(0, 2), (1,)]
    assert not topology.node(0).size_told
    assert {(cache.level, cache.size_bytes) for cache in topology.caches} == {
        (1, 32 << 10),
        (2, 256 << 10),
        (3, 8192 << 10),
    }


def test_numbers_of_the_system_alone_are_read_and_cores_may_be_left_out() -> None:
    topology = _read("Machine (4GB total)\n  NUMANode P#1 (4GB)\n  L2 + PU P#0\n  PU P#2\n")
    assert ([core.cpus for core in topology.cores], topology.node(1).cpus) == ([(0,), (2,)], (0, 2))
    assert NO_CORES in topology.notes
    assert NO_CORES not in _read(BESIDE).notes


def test_words_of_the_firmware_may_hold_any_control_character() -> None:
    assert _read(BESIDE.replace("(P#0", "(P#0 DMIBIOSVersion=.0b\r\x1c\x85", 1)) == _read(BESIDE)


def test_memory_in_a_group_whose_cpus_were_not_allowed_has_none() -> None:
    group = "  Group0 L#5 (total=1GiB)\n    NUMANode L#9 (P#9 local=1GiB total=1GiB)\n"
    assert _read(BESIDE.replace("\n", f"\n{group}", 1)).node(9).cpus == ()


def test_what_is_no_tree_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"lstopo.txt, line 2: '\?\?\?' is no object"):
        _read("Machine (P#0)\n  ???\n")
    file = tmp_path / "m.output"
    file.write_text(BESIDE, encoding="utf-8")
    assert read_machine(file) == conclude(describe_lstopo(BESIDE, str(file)))


NESTED_TOO_DEEP = "".join(f"{' ' * depth}Group0 L#0\n" for depth in range(1, 1200))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0x00000028", "0xzz", r"line 15: <processors> has mask='0xzz' where words"),
        (
            "0x00000028",
            "0x1" + ",," * 40_000 + "0x0",
            r"line 15: <processors> has mask with members",
        ),
        ("PU L#1 (P#4)", "PU L#1 (P#99999999999)", "line 9: <object> has P#99999999999: no cpu"),
        ("PU L#1 (P#4)", "PU L#1 (P#1048576)", "line 9: <object> has P#1048576: no cpu and no"),
        ("L#1 (P#16 local", f"L#1 (P#{'9' * 5000} local", "line 12: <object> has P#9{20}: no cpu"),
        ("size=256KB", f"size={'9' * 5000}KB", "line 5: <object> has cache_size='9*"),
        (
            "  NUMANode L#0",
            f"{NESTED_TOO_DEEP}  NUMANode L#0",
            "line 201: .* more than 200 objects",
        ),
        ("  NUMANode L#0", f"  {'L2 L#0 + ' * 1200}Core L#0", "line 2: .* more than 200 objects"),
    ],
)
def test_numbers_and_depths_beyond_any_machine_are_refused_with_their_line(
    old: str, new: str, said: str
) -> None:
    assert old in NESTED
    with pytest.raises(TopologyError, match=rf"lstopo\.txt, {said}"):
        _read(NESTED.replace(old, new, 1))


def test_mask_of_absent_processors_may_leave_out_zeros() -> None:
    topology = _read(NESTED.replace("0x00000028", "0x1,,0x8"))
    assert topology.offline_cpus == (3, 64)


@pytest.mark.skipif(
    shutil.which("lstopo-no-graphics") is None, reason="hwloc's lstopo is not installed"
)
@pytest.mark.parametrize("words", [(), ("-v",)])
def test_what_lstopo_prints_here_is_what_it_writes_as_xml(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    said = {}
    for form in ("console", "xml"):
        command = ["lstopo-no-graphics", "--of", form, "--no-io", "--disallowed", *words]
        run = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
        (tmp_path / form).write_text(run.stdout, encoding="utf-8")
        said[form] = read_machine(tmp_path / form)
    assert compare(said["console"], said["xml"]) == ()
    assert said["console"].cpus == said["xml"].cpus
