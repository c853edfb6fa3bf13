"""GPUs: devices on the PCI bus, and the cores next to them.

A GPU is known by its address or its UUID. The numbers that CUDA, NVML and Slurm give to GPUs follow
orders of their own, and differ between processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, GpuFacts
from affinity.machine.files import MachineFiles, find_cpus, read_int
from affinity.machine.locality import homes_of_cpus, nodes_with_cpus
from affinity.topology import Gpu

DEVICES: Final = "sys/bus/pci/devices"
NVIDIA: Final = "proc/driver/nvidia/gpus"

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ACCELERATOR: Final = 0x1200
_CLASSES: Final = (0x0300, 0x0302, 0x0380, _ACCELERATOR)
"""Of displays, of 3D controllers, of other displays, and of what AMD's largest are."""

_AMD, _INTEL = 0x1002, 0x8086
_MAKERS: Final = {0x10DE: "NVIDIA", _AMD: "AMD", _INTEL: "Intel"}
_OLD_DISPLAYS: Final = (0x515E, 0x4752)
"""AMD's that servers have for a console: ES1000 and Rage XL."""

_IN_THE_PROCESSOR: Final = ":00:02.0"
"""Where Intel's processors have their own graphics."""

_BITS_PER_TRANSFER: Final = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130}
"""Of each transfer's bits those that carry bytes, by GT/s; faster links lose next to none."""


def maker_of(address: str, vendor: int, device: int, device_class: int) -> str | None:
    """Who made the GPU at an address, by its numbers on the PCI bus; None for what is none.

    The graphics in processors of AMD count, as no number tells them from cards.
    """
    computes = device_class in _CLASSES and (device_class != _ACCELERATOR or vendor == _AMD)
    old = vendor == _AMD and device in _OLD_DISPLAYS
    inside = vendor == _INTEL and address.endswith(_IN_THE_PROCESSOR)
    if not computes or old or inside or _ADDRESS.fullmatch(address) is None:
        return None
    return _MAKERS.get(vendor)


def called(maker: str, vendor: int, device: int) -> str:
    """A name for a GPU whose model nothing tells."""
    return f"{maker} device {vendor:04x}:{device:04x}"


def add_gpus(files: MachineFiles, description: Description) -> None:
    """Describe the GPUs in ``sys``, and what NVIDIA's driver tells of its own in ``proc``.

    Virtual functions, which a GPU has for guests, are left out beside the GPU itself.
    """
    for address in files.names(DEVICES):
        folder = f"{DEVICES}/{address}"
        device_class = _hexadecimal(files, f"{folder}/class") >> 8
        if device_class not in _CLASSES:  # of the hundreds of devices of a server only this is read
            continue
        vendor, number = (_hexadecimal(files, f"{folder}/{name}") for name in ("vendor", "device"))
        maker = maker_of(address, vendor, number, device_class)
        if maker is None or files.link(f"{folder}/physfn") is not None:
            continue
        told = _nvidia(files, address)
        node = read_int(files, f"{folder}/numa_node")
        description.gpus.append(
            GpuFacts(
                address=address,
                vendor=maker,
                model=told.get("Model") or called(maker, vendor, number),
                uuid=uuid if "?" not in (uuid := told.get("GPU UUID", "")) else "",
                told_node=None if node is None or node < 0 else node,
                cpus=find_cpus(files, folder, "local_cpulist", "local_cpus") or (),
                source=f"/{folder}",
                link_gb_per_second=_link(files, folder),
            )
        )
    if description.gpus:
        description.sources.append(f"GPUs: /{DEVICES}")


def conclude_gpus(description: Description) -> tuple[Gpu, ...]:
    """Say next to which cores each GPU is, by address.

    Firmware that does not tell gives the node -1. Linux then counts the GPU as near to all cpus.
    """
    homes, owners = homes_of_cpus(description), nodes_with_cpus(description)
    found = []
    for facts in sorted(description.gpus, key=lambda gpu: gpu.address):
        nodes, evidence = _near(facts, homes, owners)
        own = tuple(cpu for cpu in facts.cpus if homes.get(cpu) in nodes)
        found.append(
            Gpu(
                address=facts.address,
                vendor=facts.vendor,
                model=facts.model,
                uuid=facts.uuid,
                numa_node=nodes[0] if len(nodes) == 1 else None,
                cpus=own or tuple(cpu for cpu in sorted(homes) if homes[cpu] in nodes),
                evidence=evidence,
                link_gb_per_second=facts.link_gb_per_second,
            )
        )
    return tuple(found)


def _near(
    facts: GpuFacts, homes: Mapping[int, int], owners: tuple[int, ...]
) -> tuple[tuple[int, ...], str]:
    """Those of the nodes with cpus that are next to a GPU, and the evidence; none if not told."""
    near = tuple(sorted({homes[cpu] for cpu in facts.cpus if cpu in homes}))
    if facts.told_node in owners:
        return (facts.told_node,), f"{facts.source}/numa_node"
    if len(owners) == 1:
        return owners, "no other node has cpus"
    if not near or near == owners:
        return (), "nothing tells which cores are next to it"
    several = "" if len(near) == 1 else f", of nodes {format_cpulist(near)}"
    return near, f"the cpus that {facts.source} names{several}"


def _hexadecimal(files: MachineFiles, path: str) -> int:
    """The number in a file such as ``class``; 0 where it is missing or none."""
    text = files.read_text(path) or ""
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else 0


def _nvidia(files: MachineFiles, address: str) -> dict[str, str]:
    """What the driver tells of the GPU at an address, by its words: Model, GPU UUID ..."""
    text = files.read_text(f"{NVIDIA}/{address}/information") or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _link(files: MachineFiles, folder: str) -> float | None:
    """GB/s in one direction of the fastest mode of the card's link; None where it is not told."""
    rate = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", files.read_text(f"{folder}/max_link_speed") or "")
    width = re.fullmatch(r"\d{1,2}", files.read_text(f"{folder}/max_link_width") or "")
    if rate is None or width is None or not int(width[0]):
        return None
    transfers = float(rate[1])
    return transfers * _BITS_PER_TRANSFER.get(transfers, 1.0) * int(width[0]) / 8
