"""GPUs: devices on the PCI bus, and the cores next to them.

A GPU is known by its address or its UUID. The numbers that CUDA, NVML and Slurm give to GPUs follow
orders of their own, and differ between processes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from affinity.machine.description import Description, GpuFacts
from affinity.machine.files import MachineFiles, find_cpus, read_int
from affinity.machine.locality import homes_of_cpus, nodes_with_cpus
from affinity.topology import Gpu

DEVICES: Final = "sys/bus/pci/devices"
NVIDIA: Final = "proc/driver/nvidia/gpus"

_DISPLAY, _THREE_D, _OTHER, _ACCELERATOR = 0x0300, 0x0302, 0x0380, 0x1200


class _Maker(NamedTuple):
    """Its name, and the PCI classes of its devices that compute."""

    name: str
    classes: tuple[int, ...]


MAKERS: Final = {
    0x10DE: _Maker("NVIDIA", (_DISPLAY, _THREE_D)),
    0x1002: _Maker("AMD", (_DISPLAY, _THREE_D, _OTHER, _ACCELERATOR)),
    # Of 0x0300 are the graphics in its processors.
    0x8086: _Maker("Intel", (_OTHER,)),
}
"""By the vendor's number. Servers have displays of others, which do not compute."""

_BITS_PER_TRANSFER: Final = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130}
"""Of each transfer's bits those that carry bytes, by GT/s; faster links lose next to none."""


def maker_of(vendor: int, device_class: int) -> str | None:
    """Who made a GPU, by its numbers on the PCI bus; None for what is none."""
    maker = MAKERS.get(vendor)
    return maker.name if maker and device_class in maker.classes else None


def add_gpus(files: MachineFiles, description: Description) -> None:
    """Describe the GPUs in ``sys``, and what NVIDIA's driver tells of its own in ``proc``."""
    for address in files.names(DEVICES):
        folder = f"{DEVICES}/{address}"
        numbers = [_hexadecimal(files, f"{folder}/{name}") for name in ("vendor", "class")]
        if (maker := maker_of(numbers[0], numbers[1] >> 8)) is None:
            continue
        told = _nvidia(files, address)
        node = read_int(files, f"{folder}/numa_node")
        description.gpus.append(
            GpuFacts(
                address=address,
                vendor=maker,
                model=told.get("Model") or _number(files, folder, maker, numbers[0]),
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
        near = {homes[cpu] for cpu in facts.cpus if cpu in homes}
        node: int | None
        if facts.told_node in owners:
            node, evidence = facts.told_node, f"{facts.source}/numa_node"
        elif len(near) == 1:
            node, evidence = min(near), f"the cpus that {facts.source} names"
        elif len(owners) == 1:
            node, evidence = owners[0], "no other node has cpus"
        else:
            node, evidence = None, "nothing tells which cores are next to it"
        cpus = facts.cpus if len(near) == 1 else tuple(c for c in sorted(homes) if homes[c] == node)
        found.append(
            Gpu(
                address=facts.address,
                vendor=facts.vendor,
                model=facts.model,
                uuid=facts.uuid,
                numa_node=node,
                cpus=cpus,
                evidence=evidence,
                link_gb_per_second=facts.link_gb_per_second,
            )
        )
    return tuple(found)


def _hexadecimal(files: MachineFiles, path: str) -> int:
    """The number in a file such as ``class``; 0 where it is missing or none."""
    text = files.read_text(path) or ""
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else 0


def _number(files: MachineFiles, folder: str, maker: str, vendor: int) -> str:
    """A name for a GPU without a driver that tells its model."""
    return f"{maker} device {vendor:04x}:{_hexadecimal(files, f'{folder}/device'):04x}"


def _nvidia(files: MachineFiles, address: str) -> dict[str, str]:
    """What the driver tells of the GPU at an address, by its words: Model, GPU UUID ..."""
    text = files.read_text(f"{NVIDIA}/{address}/information") or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _link(files: MachineFiles, folder: str) -> float | None:
    """GB/s in one direction of the link's fastest mode; None where it is not told."""
    rate = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", files.read_text(f"{folder}/max_link_speed") or "")
    width = re.fullmatch(r"\d{1,2}", files.read_text(f"{folder}/max_link_width") or "")
    if rate is None or width is None or not int(width[0]):
        return None
    transfers = float(rate[1])
    return transfers * _BITS_PER_TRANSFER.get(transfers, 1.0) * int(width[0]) / 8
