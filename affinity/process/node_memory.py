"""Free memory and free huge pages of a NUMA node's pool, at this moment."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from affinity.errors import MemoryPolicyError

_ROOT = Path("/")


def free_bytes(node: int, root: Path = _ROOT) -> int:
    """Bytes that can be taken from this node alone before the kernel starts killing processes.

    Free pages and those that only hold copies of files, less what the kernel keeps for itself.
    Raises MemoryPolicyError if there is no such node.
    """
    text = _read(root / f"sys/devices/system/node/node{node}/meminfo", node)
    fields = re.findall(r"(MemFree|Active\(file\)|Inactive\(file\)):\s*(\d+) kB", text)
    kilobytes = sum(int(value) for _, value in fields)
    return max(0, kilobytes * 1024 - _kept_bytes(node, root))


def huge_page_bytes(root: Path = _ROOT) -> int:
    """Size of the huge pages that the pool holds by default; 0 if the kernel has none."""
    found = re.search(r"Hugepagesize:\s*(\d+) kB", _text(root / "proc/meminfo"))
    return int(found[1]) * 1024 if found else 0


def huge_page_pool(node: int, root: Path = _ROOT) -> Path:
    """Where the kernel shows, and root sets, a node's pool of huge pages of the default size."""
    kilobytes = huge_page_bytes(root) // 1024
    folder = f"sys/devices/system/node/node{node}/hugepages/hugepages-{kilobytes}kB"
    return root / folder


def free_huge_pages(node: int, root: Path = _ROOT) -> int:
    """How many huge pages of the default size this node's pool can still give; 0 if unknown."""
    text = _text(huge_page_pool(node, root) / "free_hugepages").strip()
    return int(text) if text.isdigit() else 0


def transparent_huge_page_bytes(root: Path = _ROOT) -> int:
    """Size of transparent huge pages, 0 where the kernel has none or they are switched off."""
    folder = root / "sys/kernel/mm/transparent_hugepage"
    size = _text(folder / "hpage_pmd_size").strip()
    off = "[never]" in _text(folder / "enabled")
    return 0 if off or not size.isdigit() else int(size)


def _kept_bytes(node: int, root: Path) -> int:
    # Below a zone's high mark the kernel reclaims, below the lowest it kills.
    zones = re.split(r"^Node\s+", _text(root / "proc/zoneinfo"), flags=re.MULTILINE)
    own = (zone for zone in zones if zone.startswith(f"{node},"))
    marks = (re.search(r"^\s+high\s+(\d+)$", zone, re.MULTILINE) for zone in own)
    return sum(int(mark[1]) for mark in marks if mark) * mmap.PAGESIZE


def _read(path: Path, node: int) -> str:
    text = _text(path)
    if not text:
        raise MemoryPolicyError(
            f"node {node} has no readable {path}: it is offline, or was never there; "
            "`python -m affinity show` lists the nodes"
        )
    return text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
