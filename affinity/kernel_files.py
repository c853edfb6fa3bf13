"""Reading the small text files of sysfs and procfs, some of which containers hide."""

from __future__ import annotations

import re
from pathlib import Path

from affinity.cpulist import parse_cpulist
from affinity.errors import TopologyError


def read_text(path: Path) -> str | None:
    """The stripped content of a kernel file, or None where it is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """The number in a kernel file, or None where it is missing; TopologyError if no number."""
    text = read_text(path)
    return None if text is None else to_int(text, path)


def to_int(text: str, path: Path) -> int:
    """`text`, found in `path`, as a number; TopologyError naming both if it is none."""
    try:
        return int(text)
    except ValueError:
        raise TopologyError(f"{path} holds {text!r} where a whole number was expected") from None


def read_cpus(folder: Path) -> tuple[int, ...]:
    """The cpus in ``cpulist``, or in the hexadecimal mask that old kernels and captures have.

    Raises TopologyError if `folder` has neither: no cpus and unknown cpus are not the same.
    """
    listed, mask = read_text(folder / "cpulist"), read_text(folder / "cpumap")
    if listed is not None:
        return parse_cpulist(listed)
    try:
        bits = int((mask or "").replace(",", ""), 16)
    except ValueError:
        raise TopologyError(
            f"{folder} has neither a cpulist nor a cpumap that can be read"
        ) from None
    return tuple(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def read_meminfo(path: Path) -> tuple[int, int]:
    """Total and free bytes from ``/proc/meminfo`` or a node's ``meminfo``; zeros if missing."""
    kilobytes = dict(re.findall(r"(MemTotal|MemFree):\s*(\d+) kB", read_text(path) or ""))
    return int(kilobytes.get("MemTotal", 0)) * 1024, int(kilobytes.get("MemFree", 0)) * 1024


def read_cpuinfo(path: Path) -> dict[int, dict[str, str]]:
    """The blocks of ``/proc/cpuinfo`` by processor number; empty where the file is missing."""
    processors: dict[int, dict[str, str]] = {}
    for block in re.split(r"\n\s*\n", read_text(path) or ""):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in fields:
            processors[to_int(fields["processor"], path)] = fields
    return processors
