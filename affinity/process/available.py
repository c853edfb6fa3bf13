"""Memory that this process can still allocate."""

from __future__ import annotations

import os
from pathlib import Path

from affinity.machine.files import FolderFiles, read_available
from affinity.process.cgroup import read_memory_limit


def available_bytes(root: Path = Path("/")) -> int:
    """Memory that programs can still take, by the kernel's estimate and this process's limits.

    Where ``/proc/meminfo`` is hidden or damaged, all memory of the machine counts as free.
    """
    told = read_available(FolderFiles(root))
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if told is None else told
    limit = read_memory_limit(root)
    return free if limit is None else min(free, limit.left_bytes)
