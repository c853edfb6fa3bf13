"""Memory that this process can still take."""

from __future__ import annotations

from pathlib import Path

from affinity.process.cgroup import read_memory_limit


def available_bytes(root: Path = Path("/")) -> int:
    """Memory that programs can still take, by the kernel's estimate and this process's limits."""
    figures = dict(
        line.split(":") for line in (root / "proc/meminfo").read_text(encoding="utf-8").splitlines()
    )
    # Kernels before 3.14 leave the estimate to their users.
    names = ("MemAvailable",) if "MemAvailable" in figures else ("MemFree", "Cached")
    free = sum(int(figures[name].split()[0]) for name in names) * 1024
    limit = read_memory_limit(root)
    return free if limit is None else min(free, limit.left_bytes)
