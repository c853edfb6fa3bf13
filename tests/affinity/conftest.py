"""Machines made of small files: the sysfs and procfs trees that the tests read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class MachineFiles:
    """Writes what a kernel would show of a machine under `root`."""

    root: Path
    processors: list[dict[str, str]] = field(default_factory=list)

    def write(self, path: str, text: str) -> None:
        """Write one kernel file, with the newline that the kernel ends it with."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")

    def remove(self, path: str) -> None:
        """Hide one kernel file, as containers do."""
        (self.root / path).unlink()

    def add_core(self, package: int, core_id: int, cpus: Sequence[int], **cpuinfo: str) -> None:
        """Add a core with hardware threads `cpus`; `cpuinfo` are further fields of its blocks."""
        for cpu in cpus:
            folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
            self.write(f"{folder}/core_id", str(core_id))
            self.write(f"{folder}/physical_package_id", str(package))
            self.write(f"{folder}/thread_siblings_list", ",".join(map(str, sorted(cpus))))
            numbers = {"physical id": str(package), "core id": str(core_id)}
            self.processors.append({"processor": str(cpu), **cpuinfo, **numbers})
        self.processors.sort(key=lambda block: int(block["processor"]))
        blocks = ("".join(f"{k}\t: {v}\n" for k, v in block.items()) for block in self.processors)
        self.write("proc/cpuinfo", "\n".join(blocks))
        last = max(int(block["processor"]) for block in self.processors)
        self.write("sys/devices/system/cpu/online", f"0-{last}")

    def add_node(self, node: int, cpulist: str, megabytes: int) -> None:
        """Add a NUMA node with a quarter of its memory free."""
        folder = f"sys/devices/system/node/node{node}"
        self.write(f"{folder}/cpulist", cpulist)
        total = f"Node {node} MemTotal:       {megabytes * 1024} kB\n"
        self.write(f"{folder}/meminfo", f"{total}Node {node} MemFree:        {megabytes * 256} kB")

    def add_bandwidth(self, node: int, access: str, initiator: int, megabytes: int) -> None:
        """Add what the HMAT table says of `node` as seen from the cpus of `initiator`."""
        folder = f"sys/devices/system/node/node{node}/{access}/initiators"
        self.write(f"{folder}/read_bandwidth", str(megabytes))
        (self.root / folder / f"node{initiator}").mkdir()


def _knights_landing(machine: MachineFiles) -> None:
    """4 clusters of 2 cores with 4 threads each, and 4 MCDRAM nodes without cpus."""
    flags = "fpu sse avx avx2 fma avx512f avx512pf avx512er avx512cd"
    model = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "87"}
    name = {"model name": "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz", "flags": flags}
    for core in range(8):
        machine.add_core(0, core, [core + 8 * thread for thread in range(4)], **model, **name)
    for node in range(4):
        cpus = sorted(core + 8 * t for core in (2 * node, 2 * node + 1) for t in range(4))
        machine.add_node(node, ",".join(map(str, cpus)), 24_576)
        machine.add_node(4 + node, "", 4096)


def _two_sockets(machine: MachineFiles) -> None:
    """2 packages of 3 cores with 2 threads each; both packages number their cores from 0."""
    for package in range(2):
        for core in range(3):
            first = 3 * package + core
            machine.add_core(package, core, [first, first + 6], vendor_id="GenuineIntel")
    machine.add_node(0, "0-2,6-8", 1024)
    machine.add_node(1, "3-5,9-11", 1024)


def _small_vm(machine: MachineFiles) -> None:
    """2 cores with one thread each on one node."""
    for cpu in range(2):
        machine.add_core(0, cpu, [cpu], vendor_id="AuthenticAMD", flags="sse avx2 fma")
    machine.add_node(0, "0-1", 512)


_MACHINES = {
    "knights_landing": _knights_landing,
    "two_sockets": _two_sockets,
    "small_vm": _small_vm,
}


@pytest.fixture
def machine_files(tmp_path: Path) -> Callable[[str], MachineFiles]:
    """A function that writes the named machine and returns its files for further changes."""

    def write(name: str) -> MachineFiles:
        machine = MachineFiles(tmp_path / name)
        _MACHINES[name](machine)
        return machine

    return write
