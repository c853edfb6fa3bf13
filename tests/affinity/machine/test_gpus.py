"""GPUs are found on the PCI bus, and belong to the cores that the kernel says are next to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity import read_topology
from affinity.machine.files import FolderFiles
from affinity.machine.gpus import maker_of
from affinity.machine.read import read_machine
from affinity.machine.snapshot import write_snapshot
from affinity.topology import Gpu

FIRST, SECOND = "0000:3b:00.0", "0000:d8:00.0"
INFORMATION = """Model: \t\t NVIDIA A100-SXM4-40GB
IRQ:   \t\t 88
GPU UUID: \t GPU-0f4dd6d5-8ea6-4e22-a9d5-1f6a8cfa3e0c
Video BIOS: \t 92.00.45.00.03
Device Minor: \t 0"""


@pytest.fixture
def machine(write_machine: Callable[..., Any], tmp_path: Path) -> Any:
    """Two nodes of four cores."""
    return write_machine(tmp_path, clusters=(4, 4))


def _gpus(machine: Any) -> tuple[Gpu, ...]:
    return read_topology(machine.root).gpus


def test_a_gpu_is_next_to_the_node_that_the_kernel_names(machine: Any) -> None:
    machine.add_gpu(FIRST, 1, range(4, 8), max_link_speed="16.0 GT/s PCIe", max_link_width="16")
    machine.write(f"proc/driver/nvidia/gpus/{FIRST}/information", INFORMATION)
    (gpu,) = _gpus(machine)
    assert gpu == Gpu(
        address=FIRST,
        vendor="NVIDIA",
        model="NVIDIA A100-SXM4-40GB",
        uuid="GPU-0f4dd6d5-8ea6-4e22-a9d5-1f6a8cfa3e0c",
        numa_node=1,
        cpus=(4, 5, 6, 7),
        evidence=f"/sys/bus/pci/devices/{FIRST}/numa_node",
        link_gb_per_second=pytest.approx(31.5, abs=0.02),
    )
    assert "GPUs: /sys/bus/pci/devices" in read_topology(machine.root).sources


def test_without_a_node_the_cpus_beside_it_tell(machine: Any) -> None:
    machine.add_gpu(FIRST, -1, range(4, 8))
    (gpu,) = _gpus(machine)
    assert (gpu.numa_node, gpu.cpus) == (1, (4, 5, 6, 7))
    assert gpu.evidence == f"the cpus that /sys/bus/pci/devices/{FIRST} names"


def test_a_gpu_near_to_all_cpus_is_at_no_node(machine: Any) -> None:
    machine.add_gpu(FIRST, -1, range(8))
    (gpu,) = _gpus(machine)
    assert (gpu.numa_node, gpu.cpus) == (None, ())
    assert gpu.evidence == "nothing tells which cores are next to it"


def test_a_node_that_is_not_there_is_not_believed(machine: Any) -> None:
    machine.add_gpu(FIRST, 7, range(4))
    assert _gpus(machine)[0].numa_node == 0


def test_where_one_node_has_cpus_a_gpu_is_next_to_them(
    write_machine: Callable[..., Any], tmp_path: Path
) -> None:
    machine = write_machine(tmp_path, clusters=(2,), memories={1: 16_384})
    machine.add_gpu(FIRST, -1, ())
    (gpu,) = _gpus(machine)
    assert (gpu.numa_node, gpu.cpus, gpu.evidence) == (0, (0, 1), "no other node has cpus")


def test_gpus_are_in_the_order_of_their_addresses(machine: Any) -> None:
    machine.add_gpu(SECOND, 1, range(4, 8))
    machine.add_gpu(FIRST, 0, range(4))
    machine.add_gpu("0000:01:00.0", 0, range(4), class_="0x030000", vendor="0x1a03")
    assert [gpu.address for gpu in _gpus(machine)] == [FIRST, SECOND]


def test_without_its_driver_a_gpu_has_numbers_for_a_name(machine: Any) -> None:
    machine.add_gpu(FIRST, 0, range(4), vendor="0x1002", class_="0x038000", device="0x740c")
    machine.add_gpu(SECOND, 0, range(4))
    unset = INFORMATION.replace("0f4dd6d5-8ea6-4e22-a9d5-1f6a8cfa3e0c", "????????-????-????")
    machine.write(f"proc/driver/nvidia/gpus/{SECOND}/information", unset)
    first, second = _gpus(machine)
    assert (first.model, first.uuid) == ("AMD device 1002:740c", "")
    assert (second.model, second.uuid) == ("NVIDIA A100-SXM4-40GB", "")


@pytest.mark.parametrize(
    ("speed", "width", "rate"),
    [
        ("8.0 GT/s PCIe", "8", 7.88),
        ("2.5 GT/s PCIe", "16", 4.0),
        ("64.0 GT/s PCIe", "16", 128.0),
        ("Unknown", "16", None),
        ("8.0 GT/s PCIe", "0", None),
        ("8.0 GT/s PCIe", "many", None),
    ],
)
def test_the_rate_of_a_link_is_that_of_its_bytes(
    machine: Any, speed: str, width: str, rate: float | None
) -> None:
    machine.add_gpu(FIRST, 0, range(4), max_link_speed=speed, max_link_width=width)
    (gpu,) = _gpus(machine)
    assert gpu.link_gb_per_second == (None if rate is None else pytest.approx(rate, abs=0.01))


@pytest.mark.parametrize(
    ("vendor", "device", "device_class", "maker"),
    [
        (0x10DE, 0x20B0, 0x0300, "NVIDIA"),
        (0x10DE, 0x20B0, 0x0403, None),  # the sound of its display
        (0x1002, 0x740C, 0x1200, "AMD"),
        (0x10DE, 0x20B0, 0x1200, None),
        (0x1002, 0x515E, 0x0300, None),  # a server's console
        (0x8086, 0x56A0, 0x0300, "Intel"),
        (0x8086, 0x0BD5, 0x0380, "Intel"),
        (0x102B, 0x0522, 0x0300, None),
        (0, 0, 0, None),
    ],
)
def test_a_gpu_is_told_from_other_devices(
    vendor: int, device: int, device_class: int, maker: str | None
) -> None:
    assert maker_of(FIRST, vendor, device, device_class) == maker


def test_intels_graphics_in_a_processor_are_no_gpu() -> None:
    assert maker_of("0000:00:02.0", 0x8086, 0x3E92, 0x0380) is None
    assert maker_of("", 0x8086, 0x0BD5, 0x0380) is None


def test_virtual_functions_are_left_out(machine: Any) -> None:
    machine.add_gpu(FIRST, 0, range(4))
    machine.add_gpu("0000:3b:00.4", 0, range(4))
    physical = f"sys/bus/pci/devices/{FIRST}"
    machine.link("sys/bus/pci/devices/0000:3b:00.4/physfn", physical)
    assert [gpu.address for gpu in _gpus(machine)] == [FIRST]


def test_cpus_are_those_of_the_machine_and_of_the_node(machine: Any) -> None:
    machine.add_gpu(FIRST, 1, range(2, 6))
    machine.add_gpu(SECOND, 0, range(4, 128))
    assert [gpu.cpus for gpu in _gpus(machine)] == [(4, 5), (0, 1, 2, 3)]


def test_a_gpu_near_to_some_nodes_has_their_cpus(
    write_machine: Callable[..., Any], tmp_path: Path
) -> None:
    machine = write_machine(tmp_path, clusters=(2, 2, 2))
    machine.add_gpu(FIRST, -1, range(4))
    (gpu,) = _gpus(machine)
    assert (gpu.numa_node, gpu.cpus) == (None, (0, 1, 2, 3))
    assert gpu.evidence.endswith(f"{FIRST} names, of nodes 0-1")


def test_a_snapshot_has_gpus_behind_links(machine: Any, tmp_path: Path) -> None:
    machine.add_gpu("0000:00:00.0", 1, range(4, 8))
    devices = machine.root / "sys/bus/pci/devices"
    real = "sys/devices/pci0000:3b/0000:3b:00.0"
    (machine.root / real).parent.mkdir(parents=True)
    (devices / "0000:00:00.0").rename(machine.root / real)
    machine.link(f"sys/bus/pci/devices/{FIRST}", real)
    write_snapshot(tmp_path / "machine.tgz", FolderFiles(machine.root))
    assert read_machine(tmp_path / "machine.tgz").gpus == _gpus(machine)
    assert [gpu.address for gpu in _gpus(machine)] == [FIRST]


@pytest.mark.parametrize("text", ["", "0x", "none", "0x" + "1" * 40])
def test_a_device_whose_files_are_damaged_is_left_out(machine: Any, text: str) -> None:
    machine.add_gpu(FIRST, 0, range(4), class_=text)
    assert _gpus(machine) == ()
