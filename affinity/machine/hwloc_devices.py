"""GPUs in hwloc's XML: PCI devices, below them what each library calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from affinity.machine.description import GpuFacts
from affinity.machine.gpus import maker_of
from affinity.machine.hwloc_objects import HwlocObject

_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]")
_UUIDS = ("NVIDIAUUID", "AMDUUID", "LevelZeroUUID")


def gpus(objects: Iterable[HwlocObject]) -> Iterator[GpuFacts]:
    """The GPUs among the objects, each beside the cpus of the innermost object around it."""
    below: dict[HwlocObject, list[HwlocObject]] = {}
    devices = []
    for item in objects:
        if item.type == "PCIDev":
            devices.append(item)
        elif item.type == "OSDev" and (device := item.within("PCIDev")):
            below.setdefault(device, []).append(item)
    for device in devices:
        found = _TYPE.match(device.element.get("pci_type"))
        if found is None:
            continue
        device_class, vendor, number = (int(word, 16) for word in found.groups())
        if (maker := maker_of(vendor, device_class)) is None:
            continue
        called = below.get(device, [])
        link = re.fullmatch(r"\d{1,4}\.\d+", device.element.get("pci_link_speed"))
        yield GpuFacts(
            address=device.element.get("pci_busid"),
            vendor=maker,
            model=_told(called, ("GPUModel",)) or f"{maker} device {vendor:04x}:{number:04x}",
            uuid=_told(called, _UUIDS),
            # To be somewhere in the machine tells nothing.
            cpus=next(
                (above.cpus for above in device.ancestors() if above.cpus and above.parent), ()
            ),
            source="hwloc",
            link_gb_per_second=float(link[0]) if link and float(link[0]) else None,
        )


def _told(called: Iterable[HwlocObject], names: tuple[str, ...]) -> str:
    """The first value of these infos."""
    values = (item.info(name) for item in called for name in names)
    return next((value for value in values if value), "")
