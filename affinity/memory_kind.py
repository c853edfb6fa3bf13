"""Telling high-bandwidth memory from DRAM, and only where the machine gives evidence of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from affinity.kernel_files import read_cpus, read_int

MemoryKind = Literal["dram", "hbm", "unknown"]

KNIGHTS_MODELS = {"87": "Knights Landing", "133": "Knights Mill"}
"""Models of Intel's family 6 whose memory without cpus is MCDRAM; they have no HMAT table."""

HBM_BANDWIDTH_RATIO = 2.0
"""Memory counts as high-bandwidth above this many times the bandwidth of its cpus' own memory.

Never an absolute bandwidth: sub-NUMA clustering divides that by the number of clusters.
"""


def memory_kind(
    node_folder: Path, has_cpus: bool, processor: dict[str, str]
) -> tuple[MemoryKind, str]:
    """The kind of the memory at ``/sys/devices/system/node/nodeN`` and the evidence for it.

    `processor` is a block of ``/proc/cpuinfo``. Looks at the processor model, then at the
    bandwidths of the firmware's HMAT table, where a bandwidth of 0 means that it is not given.
    """
    if has_cpus:
        if _is_xeon_max(processor) and not _any_memory_without_cpus(node_folder.parent):
            return "unknown", (
                "all memory is next to cpus, so a Xeon Max runs on HBM alone or with HBM as a "
                "cache of DRAM, and nothing tells which"
            )
        return "dram", "next to cpus, and nothing says that it is not DRAM"
    if knights := _knights_name(processor):
        return "hbm", f"memory without cpus on {knights} is MCDRAM"
    own, initiators = _hmat_bandwidth(node_folder)
    local = max((_hmat_bandwidth(initiator)[0] for initiator in initiators), default=0)
    if not local:
        return "unknown", "away from cpus, and no HMAT bandwidth tells what it is"
    evidence = f"HMAT gives it {own / local:.1f} times the bandwidth of its cpus' own memory"
    return ("hbm" if own > HBM_BANDWIDTH_RATIO * local else "unknown"), evidence


def _knights_name(processor: dict[str, str]) -> str | None:
    intel_6 = processor.get("vendor_id") == "GenuineIntel" and processor.get("cpu family") == "6"
    return KNIGHTS_MODELS.get(processor.get("model", "")) if intel_6 else None


def _is_xeon_max(processor: dict[str, str]) -> bool:
    """Sapphire Rapids with HBM has the model number of that without; only the name differs."""
    model = tuple(processor.get(key) for key in ("vendor_id", "cpu family", "model"))
    named = re.search(r"\bXeon\b.*\bMax\b", processor.get("model name", ""), re.IGNORECASE)
    return model == ("GenuineIntel", "6", "143") and named is not None


def _any_memory_without_cpus(nodes: Path) -> bool:
    return any(not read_cpus(node) for node in nodes.glob("node[0-9]*"))


def _hmat_bandwidth(node_folder: Path) -> tuple[int, tuple[Path, ...]]:
    """Read bandwidth in MB/s as seen from the nearest cpus (0: not given), and their nodes."""
    # access1 counts only cpus as initiators, access0 (all that older kernels have) also devices.
    for access in ("access1", "access0"):
        folder = node_folder / access / "initiators"
        if bandwidth := read_int(folder / "read_bandwidth"):
            names = sorted(path.name for path in folder.glob("node[0-9]*"))
            return bandwidth, tuple(node_folder.parent / name for name in names)
    return 0, ()
