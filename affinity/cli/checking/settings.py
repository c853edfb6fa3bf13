"""Checks system settings that move pages after placement, or make huge pages impossible."""

from __future__ import annotations

from collections.abc import Iterator

from affinity.cli.checking.finding import Finding
from affinity.machine.files import MachineFiles

_THP = "sys/kernel/mm/transparent_hugepage"


def setting_findings(files: MachineFiles) -> Iterator[Finding]:
    """Balancing, demotion and huge pages, as far as the kernel shows them."""
    yield from _balancing(files)
    yield from _demotion(files)
    yield from _huge_pages(files)
    yield from _shared_huge_pages(files)
    yield from _reclaim(files)


def _balancing(files: MachineFiles) -> Iterator[Finding]:
    mode = _word(files, "proc/sys/kernel/numa_balancing")
    if mode == "0":
        yield Finding("ok", "NUMA balancing", "off: the kernel moves no pages")
    elif mode == "1":
        text = "on: the kernel moves pages that have no policy (none, cache) after the threads"
        yield Finding("note", "NUMA balancing", text)
    elif mode:
        text = f"mode {mode}: the kernel moves pages between memory tiers by how hot they are"
        way_out = "as root: sysctl kernel.numa_balancing=0"
        yield Finding("warn", "NUMA balancing", text, way_out)


def _demotion(files: MachineFiles) -> Iterator[Finding]:
    enabled = _word(files, "sys/kernel/mm/numa/demotion_enabled")
    if enabled in ("true", "1"):
        text = "on: when HBM runs short the kernel moves pages out of it, whatever their policy"
        way_out = "as root: echo false > /sys/kernel/mm/numa/demotion_enabled"
        yield Finding("warn", "demotion", text, way_out)
    elif enabled:
        yield Finding("ok", "demotion", "off: pages stay in HBM when it runs short")


def _huge_pages(files: MachineFiles) -> Iterator[Finding]:
    chosen = _chosen(files, f"{_THP}/enabled")
    if chosen == "never":
        way_out = f"as root: echo madvise > /{_THP}/enabled"
        yield Finding("warn", "huge pages", "never: all memory comes in small pages", way_out)
    elif chosen:
        words = {"madvise": "where a program asks (madvise)", "always": "wherever they fit"}
        yield Finding("ok", "huge pages", words.get(chosen, chosen))


def _shared_huge_pages(files: MachineFiles) -> Iterator[Finding]:
    chosen = _chosen(files, f"{_THP}/shmem_enabled")
    if chosen in ("never", "deny"):
        yield Finding(
            "note",
            "huge pages, shared",
            f"{chosen}: shared memory comes in small pages",
            f"as root: echo advise > /{_THP}/shmem_enabled",
        )
    elif chosen:
        yield Finding("ok", "huge pages, shared", chosen)


def _reclaim(files: MachineFiles) -> Iterator[Finding]:
    mode = _word(files, "proc/sys/vm/zone_reclaim_mode")
    if mode not in ("", "0"):
        text = f"mode {mode}: a full node drops its page cache, or swaps, before others are used"
        yield Finding("warn", "zone reclaim", text, "as root: sysctl vm.zone_reclaim_mode=0")


def _word(files: MachineFiles, path: str) -> str:
    return (files.read_text(path) or "").strip()


def _chosen(files: MachineFiles, path: str) -> str:
    """The selected value, in brackets, of a setting such as ``always [madvise] never``."""
    return _word(files, path).partition("[")[2].partition("]")[0]
