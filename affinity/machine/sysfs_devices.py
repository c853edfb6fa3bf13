"""Memory of devices: HBM and CXL behind dax, persistent memory, that of GPUs."""

from __future__ import annotations

import re

from affinity.machine.description import Description, ToldKind
from affinity.machine.files import MachineFiles, read_int
from affinity.machine.gpus import NVIDIA
from affinity.numbers import format_bytes

DAX = "sys/bus/dax"
DEMOTION = "sys/kernel/mm/numa/demotion_enabled"

# In this order: the path of a persistent memory has a region in it too.
_BEHIND = (
    (re.compile(r"/ndbus\d"), "pmem"),
    (re.compile(r"/hmem"), "soft-reserved"),
    (re.compile(r"cxl|/(dax_)?region\d"), "cxl"),
)
_CALLED = {
    "soft-reserved": "soft-reserved memory (such as HBM)",
    "cxl": "CXL memory",
    "pmem": "persistent memory",
}


def add_devices(files: MachineFiles, description: Description) -> None:
    """Say which nodes are the memory of a device, and note what is there but not in use."""
    _add_dax(files, description)
    _add_memory_of_gpus(files, description)
    if files.read_text(DEMOTION) in ("true", "1"):
        description.notes.append(
            f"the kernel moves pages that are seldom used to slower memory (/{DEMOTION}), "
            "out of HBM too: what was placed there need not stay there"
        )


def _add_dax(files: MachineFiles, description: Description) -> None:
    driven = set(files.names(f"{DAX}/drivers/kmem", "dax"))
    for device in files.names(f"{DAX}/devices", "dax"):
        path = f"{DAX}/devices/{device}"
        target = files.link(path) or ""
        kind = next((kind for pattern, kind in _BEHIND if pattern.search(target)), None)
        node = read_int(files, f"{path}/target_node")
        facts = None if node is None else description.nodes.get(node)
        if device in driven and facts is not None and facts.holds_memory:
            facts.dax = kind
        elif device in driven:
            _note_offline(files, description, device, kind, f"daxctl online-memory {device}")
        elif kind in ("soft-reserved", "cxl"):  # Persistent memory may be left alone on purpose.
            way_out = f"daxctl reconfigure-device --mode=system-ram {device}"
            _note_offline(files, description, device, kind, way_out)


def _note_offline(
    files: MachineFiles, description: Description, device: str, kind: str | None, way_out: str
) -> None:
    size = read_int(files, f"{DAX}/devices/{device}/size") or 0
    amount = f"{format_bytes(size)} of " if size else ""
    called = _CALLED.get(kind or "", "memory")
    description.notes.append(f"{amount}{called} is present but offline: {way_out}")


def _add_memory_of_gpus(files: MachineFiles, description: Description) -> None:
    for gpu in files.names(NVIDIA):
        path = f"{NVIDIA}/{gpu}/numa_status"
        found = re.search(r"^Node:\s*(\d{1,5})\s*$", files.read_text(path) or "", re.MULTILINE)
        if found and (facts := description.nodes.get(int(found[1]))):
            facts.told = ToldKind("gpu", f"/{path}")
