"""GPUs in hwloc's XML: PCI devices, below them what each library calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from affinity.machine.description import GpuFacts
from affinity.machine.gpus import called, maker_of
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
        address = device.element.get("pci_busid")
        if (maker := maker_of(address, vendor, number, device_class)) is None:
            continue
        # The speed of its link is the current one, which an idle GPU lowers.
        names = below.get(device, [])
        yield GpuFacts(
            address=address,
            vendor=maker,
            model=_told(names, ("GPUModel",)) or called(maker, vendor, number),
            uuid=_told(names, _UUIDS),
            # To be somewhere in the machine tells nothing.
            cpus=next(
                (above.cpus for above in device.ancestors() if above.cpus and above.parent), ()
            ),
            source="hwloc",
        )


def _told(devices: Iterable[HwlocObject], infos: tuple[str, ...]) -> str:
    """The first value of these infos."""
    values = (device.info(name) for device in devices for name in infos)
    return next((value for value in values if value), "")
