"""Descriptions of machines: sysfs in folders and archives, XML, `numactl -H`, lists of cpus."""

from __future__ import annotations

import functools
import io
import tarfile
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st

from affinity import parse_cpulist
from affinity.errors import AffinityError, TopologyError
from affinity.machine.memory_kind import parse_hbm
from affinity.machine.read import read_machine

from .rounds import altered, fuzzed, texts

FILES = {
    "proc/cpuinfo": b"processor\t: 0\nphysical id\t: 0\ncore id\t: 0\nflags\t: fpu avx512f\n\n"
    b"processor\t: 1\nphysical id\t: 0\ncore id\t: 1\nflags\t: fpu avx512f\n\n",
    "proc/meminfo": b"MemTotal:       16000000 kB\nHugepagesize:       2048 kB\n",
    "sys/devices/system/cpu/online": b"0-1\n",
    "sys/devices/system/cpu/cpu0/topology/core_id": b"0\n",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": b"0\n",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list": b"0\n",
    "sys/devices/system/cpu/cpu1/topology/core_id": b"1\n",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id": b"0\n",
    "sys/devices/system/cpu/cpu0/cache/index0/level": b"1\n",
    "sys/devices/system/cpu/cpu0/cache/index0/type": b"Data\n",
    "sys/devices/system/cpu/cpu0/cache/index0/size": b"32K\n",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list": b"0\n",
    "sys/devices/system/node/online": b"0-1\n",
    "sys/devices/system/node/node0/cpulist": b"0-1\n",
    "sys/devices/system/node/node0/meminfo": b"Node 0 MemTotal:  8000000 kB\n",
    "sys/devices/system/node/node0/distance": b"10 31\n",
    "sys/devices/system/node/node1/cpulist": b"\n",
    "sys/devices/system/node/node1/meminfo": b"Node 1 MemTotal:  8000000 kB\n",
    "sys/devices/system/node/node1/distance": b"31 10\n",
    "sys/devices/system/node/node0/access0/initiators/read_bandwidth": b"100\n",
}
CHANGED = st.dictionaries(
    st.sampled_from(sorted(FILES)), altered(list(FILES.values()), most_changes=2), max_size=4
)
NUMACTL = b"""available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 16000 MB
node 0 free: 8000 MB
node 1 cpus:
node 1 size: 8000 MB
node 1 free: 8000 MB
node distances:
node   0   1
  0:  10  31
  1:  31  10
"""
HWLOC = b"""<?xml version="1.0"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x3" nodeset="0x1">
<info name="CPUModel" value="a"/>
<object type="NUMANode" os_index="0" cpuset="0x3" nodeset="0x1" gp_index="9" local_memory="99"/>
<object type="Package" os_index="0" cpuset="0x3"><object type="L1Cache" cache_size="32768"
 depth="1" cache_type="1" cache_linesize="64" cpuset="0x1">
<object type="Core" os_index="0" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/>
</object></object><object type="Core" os_index="1" cpuset="0x2">
<object type="PU" os_index="1" cpuset="0x2"/></object></object></object>
<distances2 type="NUMANode" nbobjs="1" kind="5" indexing="os"><indexes length="1">0</indexes>
<u64values length="2">10</u64values></distances2></topology>"""
LIBVIRT = b"""<domain type='kvm'><name>a</name><memory unit='KiB'>2097152</memory>
<vcpu placement='static'>4</vcpu><cpu mode='custom'><model>Skylake</model>
<topology sockets='1' cores='2' threads='2'/><numa><cell id='0' cpus='0-3' memory='1048576'
 unit='KiB'><distances><sibling id='0' value='10'/><sibling id='1' value='21'/></distances></cell>
<cell id='1' memory='1048576' unit='KiB'/></numa></cpu></domain>"""


LSTOPO = b"""Machine (P#0 total=3GiB)
  Package L#0 (P#0 total=3GiB)
    L3Cache L#0 (size=6144KB linesize=64 ways=12)
      NUMANode(DRAM) L#0 (P#0 local=1GiB total=1GiB)
      NUMANode(HBM) L#1 (P#2 local=512MiB total=512MiB)
      L2 L#0 (256KB) + L1d L#0 (32KB) + Core L#0
        PU L#0 (P#0)
        PU L#1 (P#2)
depth 0:\t1 Machine (type #1)
1 processors not represented in topology: 0x00000002
"""


@fuzzed(CHANGED, examples=12)
def test_folder_and_archive_of_the_kernels_files(folder: Path, changed: dict[str, bytes]) -> None:
    for name, content in {**FILES, **changed}.items():
        path = folder / "machine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with suppress(TopologyError):
        read_machine(folder / "machine")
    (folder / "machine.tar").write_bytes(archive(changed))
    with suppress(TopologyError):
        read_machine(folder / "machine.tar")


@fuzzed(st.deferred(lambda: altered([archive({})])), examples=20)
def test_archive_that_is_damaged(folder: Path, content: bytes) -> None:
    path = folder / "machine.tar"
    path.write_bytes(content)
    with suppress(TopologyError):
        read_machine(path)


@fuzzed(altered([NUMACTL, HWLOC, LIBVIRT, LSTOPO]), examples=80)
def test_text_of_other_tools(folder: Path, content: bytes) -> None:
    path = folder / "machine"
    path.write_bytes(content)
    with suppress(TopologyError):
        read_machine(path)


@fuzzed(texts(["0-3,8", "1", "0-9999", "1-2,", "0x3"]))
def test_list_of_cpus(_: Path, text: str) -> None:
    with suppress(AffinityError):
        parse_cpulist(text)
    with suppress(AffinityError):
        parse_hbm(text)


def archive(changed: dict[str, bytes]) -> bytes:
    return _archive(tuple(sorted({**FILES, **changed}.items())))


@functools.lru_cache(maxsize=1)
def _archive(files: tuple[tuple[str, bytes], ...]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        for name, content in files:
            member = tarfile.TarInfo(f"machine/{name}")
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return packed.getvalue()
