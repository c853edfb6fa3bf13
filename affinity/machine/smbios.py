"""Memory in the firmware's SMBIOS tables: Xeon Phi's modes, installed modules.

Only root can read the tables. On a Xeon Phi hwloc-dump-hwdata, run as root at boot, copies their
content into a file that all may read. Layout of the tables: SMBIOS 3.7 section 7.18 (type 17) and
hwloc's utils/hwloc/hwloc-dump-hwdata-knl.c (types 14, 160 and 161 of Xeon Phi).
"""

from __future__ import annotations

from affinity.machine.description import Description, KnightsFirmware
from affinity.machine.files import MachineFiles, to_int
from affinity.machine.processors import KNIGHTS_MCDRAM_BYTES

ENTRIES = "sys/firmware/dmi/entries"
DUMPS = ("run/hwloc/knl_memoryside_cache", "var/run/hwloc/knl_memoryside_cache")

_GROUPS = (b"Group: Knights Landing Information", b"Group: Knights Mill Information")
_GENERAL, _MCDRAM = 1, 2  # Members of the group.

_CLUSTER_MODES = {1: "Quadrant", 2: "Hemisphere", 4: "SNC4", 8: "SNC2", 16: "All2All"}
_MEMORY_MODES = {1: "Cache", 2: "Flat", 4: "Hybrid"}
_CACHE_PERCENT = {1: 25, 2: 50, 4: 100}

_MODULES = {
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1E: "LPDDR4",
    0x1F: "non-volatile",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
_OPTANE = 7  # A memory technology, which counts more than the type.


def add_firmware(files: MachineFiles, description: Description) -> None:
    """Add the modes of a Xeon Phi and the kinds of installed memory, as far as they are shown.

    Raises TopologyError if a table or the dump holds what the firmware never writes.
    """
    description.knights = _knights_tables(files) or _knights_dump(files)
    if description.knights:
        description.sources.append(f"Xeon Phi's modes: {description.knights.source}")
    description.installed = _installed(files)
    if description.installed:
        description.sources.append(f"memory modules: SMBIOS, in /{ENTRIES}/17-*")
    elif files.names(ENTRIES, "17-"):
        description.sources.append(
            f"memory modules: hidden, as only root can read /{ENTRIES}/17-*/raw"
        )


def _knights_tables(files: MachineFiles) -> KnightsFirmware | None:
    general = mcdram = None
    for kind in _knights_types(files):
        for entry in files.names(ENTRIES, f"{kind}-"):
            table = files.read_bytes(f"{ENTRIES}/{entry}/raw") or b""
            member = int.from_bytes(table[4:6], "little")
            general = table if member == _GENERAL else general
            mcdram = table if member == _MCDRAM else mcdram
    if general is None or len(general) < 12:
        return None
    cluster, memory = _CLUSTER_MODES.get(general[8]), _MEMORY_MODES.get(general[10])
    percent = {"Cache": 100, "Hybrid": _CACHE_PERCENT.get(general[11], 0)}.get(memory or "", 0)
    if memory == "Hybrid":
        memory = f"Hybrid{percent}" if percent else None
    nodes = {"SNC4": 4, "SNC2": 2}.get(cluster or "", 1)
    # Bytes 7 and 8: whether MCDRAM is present and switched on.
    # Some firmware reports controllers as missing that are not, so no size is taken from it.
    total = KNIGHTS_MCDRAM_BYTES if mcdram is None or (len(mcdram) > 8 and all(mcdram[7:9])) else 0
    source = f"SMBIOS tables of Xeon Phi, in /{ENTRIES}"
    return KnightsFirmware(cluster, memory, total * percent // 100 // nodes, source)


def _knights_types(files: MachineFiles) -> list[int]:
    """The types of the tables that a table of type 14 says to be Xeon Phi's."""
    for entry in files.names(ENTRIES, "14-"):
        table = files.read_bytes(f"{ENTRIES}/{entry}/raw") or b""
        if len(table) > 5 and any(group in table[table[1] :] for group in _GROUPS):
            # After the header and the number of the name: a type and two bytes of handle each.
            return list(table[5 : table[1] : 3])
    return []


def _knights_dump(files: MachineFiles) -> KnightsFirmware | None:
    for path in DUMPS:
        if text := files.read_text(path):
            fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            size = to_int(fields.get("cache_size", "0"), files.where(path))
            modes = fields.get("cluster_mode"), fields.get("memory_mode")
            return KnightsFirmware(*modes, size, f"/{path}, written by hwloc-dump-hwdata")
    return None


def _installed(files: MachineFiles) -> tuple[str, ...]:
    kinds = set()
    for entry in files.names(ENTRIES, "17-"):
        path = f"{ENTRIES}/{entry}/raw"
        # No further than the table's own length: serial numbers come after that.
        length = (files.read_bytes(path, 2) or b"\0\0")[-1]
        table = files.read_bytes(path, length) or b""
        if len(table) > 0x12 and any(table[0x0C:0x0E]):  # A size of 0: the slot is empty.
            optane = len(table) > 0x28 and table[0x28] == _OPTANE
            kinds.add("Optane" if optane else _MODULES.get(table[0x12], "other"))
    return tuple(sorted(kinds))
