from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.machine.description import Description, ToldKind
from affinity.machine.files import FolderFiles
from affinity.machine.sysfs import describe_sysfs

GIB = 2**30
NVDIMM = "LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/dax0.0"
CXL = "ACPI0017:00/root0/decoder0.0/region0/dax_region0"


@pytest.fixture
def machine(write_machine: Callable[..., Any], tmp_path: Path) -> Any:
    """Two nodes with cpus and node 2 without."""
    return write_machine(tmp_path, clusters=(2, 2), memories={2: 16_384}, slit="flat")


def _describe(machine: Any) -> Description:
    return describe_sysfs(FolderFiles(machine.root))


@pytest.mark.parametrize(
    ("behind", "kind"),
    [("hmem.0", "soft-reserved"), (CXL, "cxl"), (NVDIMM, "pmem"), ("other.1", None)],
)
def test_device_behind_a_node_is_told_by_its_path(
    machine: Any, behind: str, kind: str | None
) -> None:
    machine.add_dax("dax0.0", 2, behind, size_bytes=16 * GIB)
    description = _describe(machine)
    assert [node.dax for node in description.nodes.values()] == [None, None, kind]
    assert description.notes == []


def test_offline_hbm_is_noted_with_the_way_to_switch_it_on(machine: Any) -> None:
    machine.add_dax("dax1.0", 5, "hmem.1", online=False, size_bytes=64 * GIB)
    assert _describe(machine).notes == [
        "64.0 GiB of soft-reserved memory (such as HBM) is present but offline: "
        "daxctl reconfigure-device --mode=system-ram dax1.0"
    ]


def test_driven_device_whose_memory_is_not_online_is_noted(machine: Any) -> None:
    machine.add_dax("dax1.0", 5, CXL)
    assert _describe(machine).notes == [
        "CXL memory is present but offline: daxctl online-memory dax1.0"
    ]


def test_persistent_memory_left_to_others_is_not_noted(machine: Any) -> None:
    machine.add_dax("dax0.0", 2, NVDIMM, online=False, size_bytes=16 * GIB)
    description = _describe(machine)
    assert description.notes == []
    assert description.nodes[2].dax is None


def test_memory_of_a_gpu_is_told_by_its_driver(machine: Any) -> None:
    path = "proc/driver/nvidia/gpus/0009:01:00.0/numa_status"
    machine.write(path, "Node: 2\nOffline_Addresses:")
    machine.write("proc/driver/nvidia/gpus/0019:01:00.0/numa_status", "Node: -1")
    machine.write("proc/driver/nvidia/gpus/0029:01:00.0/information", "Model: H100")
    nodes = _describe(machine).nodes
    assert nodes[2].told == ToldKind("gpu", f"/{path}")
    assert [node.told for node in (nodes[0], nodes[1])] == [None, None]


def test_demotion_is_noted_only_where_it_is_switched_on(machine: Any) -> None:
    machine.write("sys/kernel/mm/numa/demotion_enabled", "false")
    assert _describe(machine).notes == []
    machine.write("sys/kernel/mm/numa/demotion_enabled", "true")
    (note,) = _describe(machine).notes
    assert "/sys/kernel/mm/numa/demotion_enabled" in note
    assert "out of HBM too" in note
