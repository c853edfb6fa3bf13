"""GPUs in hwloc's XML."""

from __future__ import annotations

import pytest

from affinity.machine.hwloc_xml import describe_hwloc_xml
from affinity.machine.inference import conclude
from affinity.topology import Gpu, Topology

P100 = "0302 [10de:15f9] [10de:116b] a1 00"


def _device(inside: str = "", pci_type: str = P100, address: str = "000a:01:00.0") -> str:
    return (
        '<object type="Bridge" bridge_type="0-1" bridge_pci="000a:[00-01]">'
        f'<object type="PCIDev" pci_busid="{address}" pci_type="{pci_type}" '
        f'pci_link_speed="15.753846">{inside}</object></object>'
    )


def _library(name: str, **infos: str) -> str:
    told = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos.items())
    return f'<object type="OSDev" name="{name}" osdev_type="4">{told}</object>'


def _package(hwloc, number: int, inside: str = "") -> str:
    """A package of one core, whose cpu has its number."""
    parts = hwloc.node(number, [number]), hwloc.core(number, number), inside
    return hwloc.object("Package", *parts, os_index=number, cpus=[number])


def _read(hwloc, *inside: str) -> Topology:
    return conclude(describe_hwloc_xml(hwloc.topology(*inside), "m.xml"))


def test_a_gpu_belongs_to_the_package_around_it(hwloc) -> None:
    libraries = _library("cuda2", GPUModel="Tesla P100") + _library("nvml2", NVIDIAUUID="GPU-ea91")
    first = _package(hwloc, 0)
    second = _package(hwloc, 1, _device(libraries))
    assert _read(hwloc, first, second).gpus == (
        Gpu(
            address="000a:01:00.0",
            vendor="NVIDIA",
            model="Tesla P100",
            uuid="GPU-ea91",
            numa_node=1,
            cpus=(1,),
            evidence="the cpus that hwloc names",
        ),
    )


def test_a_gpu_somewhere_in_the_machine_is_at_no_node(hwloc) -> None:
    first = _package(hwloc, 0)
    second = _package(hwloc, 1)
    (gpu,) = _read(hwloc, first, second, _device()).gpus
    assert (gpu.numa_node, gpu.cpus, gpu.link_gb_per_second) == (None, (), None)
    assert (gpu.model, gpu.uuid) == ("NVIDIA device 10de:15f9", "")


@pytest.mark.parametrize(
    "pci_type", ["0200 [10de:15f9] [0000:0000] a1 00", "0300 [102b:0522]", "none", ""]
)
def test_other_devices_are_no_gpus(hwloc, pci_type: str) -> None:
    inside = (hwloc.node(0, [0]), hwloc.core(0, 0), _device(pci_type=pci_type))
    assert _read(hwloc, *inside).gpus == ()


def test_gpus_are_in_the_order_of_their_addresses(hwloc) -> None:
    devices = [_device(address=address) for address in ("000b:01:00.0", "000a:01:00.0", "")]
    found = _read(hwloc, hwloc.node(0, [0]), hwloc.core(0, 0), *devices).gpus
    assert [gpu.address for gpu in found] == ["000a:01:00.0", "000b:01:00.0"]
