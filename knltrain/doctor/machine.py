"""Findings about the machine itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from affinity import AllowedResources, NumaNode, Topology, format_cpulist, physical_cores
from knltrain.doctor.finding import Finding
from vectorized_ops.numba.amx_permission import amx_refusal

SMALL_SHARED_MEMORY_BYTES = 256 * 2**20
"""Less free /dev/shm than this is worth a warning: containers often come with 64 MiB."""

_VECTORS = frozenset(("avx2", "avx512f", "asimd", "sve"))


def machine_findings(topology: Topology, allowed: tuple[int, ...]) -> Iterator[Finding]:
    """Processor, cores, the cpus that this process may use, and every memory."""
    yield Finding("processor", "ok", f"{topology.model} ({topology.vendor})")
    yield _instructions(topology.isa)
    yield _bfloat16(topology.isa)
    packages = len({core.package for core in topology.cores})
    yield Finding(
        "cores",
        "ok",
        f"{_count(len(topology.cores), 'physical core')} with "
        f"{_count(len(topology.cpus), 'hardware thread')} in {_count(packages, 'package')}",
    )
    usable = len(physical_cores(topology, allowed))
    yield Finding(
        "allowed cpus", "ok", f"{format_cpulist(allowed)}: {_count(usable, 'physical core')}"
    )
    for node in topology.numa_nodes:
        yield Finding(f"NUMA node {node.id}", "ok", _describe_node(node))
    yield Finding("sources", "ok", "; ".join(topology.sources))


def quota_findings(allowed: AllowedResources) -> Iterator[Finding]:
    """CPU time, where a control group limits it: threads beyond the quota are throttled."""
    if allowed.cpu_quota is None:
        return
    most = max(1, int(allowed.cpu_quota))
    text = (
        f'a control group gives time of {allowed.cpu_quota:g} cpus: workers = "auto" starts '
        f"{most} at most"
    )
    short = allowed.cpu_quota < len(allowed.cpus)
    way_out = "raise the quota (cpu.max, docker --cpus) to use all allowed cpus" if short else ""
    yield Finding("time on cpus", "warn" if short else "ok", text, way_out)


def shared_memory_finding(folder: Path = Path("/dev/shm")) -> Finding:
    """Whether there is room in the memory file system that the workers' segment lies in."""
    subject = f"shared memory {folder}"
    other = 'or set exchange.segment = "memfd"'
    try:
        room = os.statvfs(folder)
    except OSError as error:
        reason = f"not usable: {error.strerror}"
        return Finding(subject, "warn", reason, f"mount a tmpfs there, {other}")
    free_bytes = room.f_bavail * room.f_frsize
    text = f"{_size(free_bytes)} free of {_size(room.f_blocks * room.f_frsize)}"
    if free_bytes >= SMALL_SHARED_MEMORY_BYTES:
        return Finding(subject, "ok", text)
    enlarge = f"enlarge it (mount -o remount,size=2G {folder}; docker run --shm-size=2g)"
    return Finding(subject, "warn", f"only {text}", f"{enlarge}, {other}")


def huge_pages_finding(
    file: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled"),
) -> Finding:
    """Whether the kernel may give out 2 MiB pages, which save TLB misses on large arrays."""
    try:
        setting = file.read_text(encoding="utf-8").strip()
    except OSError:
        return Finding("huge pages", "ok", "the kernel does not show a setting for them")
    if "[never]" in setting:
        way_out = f"as root: echo madvise > {file}"
        return Finding("huge pages", "warn", f"transparent huge pages are off: {setting}", way_out)
    return Finding("huge pages", "ok", f"transparent huge pages: {setting}")


def thread_placement_finding(variables: Mapping[str, str]) -> Finding:
    """Whether `variables` let OpenMP place threads against the workers' placement."""
    if not variables:
        return Finding("thread placement", "ok", "left to knltrain by the environment")
    settings = ", ".join(f"{name}={value}" for name, value in variables.items())
    return Finding(
        "thread placement",
        "warn",
        f"{settings}: with one thread per worker or placement.pin = false, an OpenMP runtime "
        "will move threads, often all onto one core",
        f"unset {' '.join(variables)}",
    )


def _instructions(isa: tuple[str, ...]) -> Finding:
    text = ", ".join(isa) or "none of those that kernels are made for"
    if _VECTORS.isdisjoint(isa):
        return Finding(
            "vector instructions", "warn", text, "train on a processor with avx2, avx512f or asimd"
        )
    return Finding("vector instructions", "ok", text)


def _bfloat16(isa: tuple[str, ...]) -> Finding:
    if "avx512_bf16" not in isa:
        text = "no avx512_bf16: backend.precision = 'bfloat16' would be slower than float32"
        return Finding("bfloat16", "ok", text)
    from vectorized_ops.numba.compiling.compiler import target_sums_pairs_faster

    asked = "with backend.precision = 'bfloat16'"
    text = f"avx512_bf16, {asked}: up to two products for each of float32"
    if not target_sums_pairs_faster():
        text = "avx512_bf16: slower than float32, which 'auto' is without AMX"
    if "amx_bf16" in isa:
        refusal = amx_refusal()
        if refusal is not None:
            way_out = "ask for a kernel, and a hypervisor, that let programs use amx_tile"
            return Finding("bfloat16", "warn", f"{text}; amx_bf16 is refused: {refusal}", way_out)
        text = f"amx_bf16, {asked}: up to 16 products for each of float32, where that is faster"
    return Finding("bfloat16", "ok", text)


def _describe_node(node: NumaNode) -> str:
    cpus = f"cpus {format_cpulist(node.cpus)}" if node.cpus else "no cpus"
    kind = "memory of unknown kind" if node.kind == "unknown" else node.kind.upper()
    size = f"{_size(node.free_bytes)} free of {_size(node.memory_bytes)}"
    return f"{size} {kind}, {cpus} ({node.evidence})"


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.1f} GiB" if bytes_ >= 2**30 else f"{bytes_ / 2**20:.0f} MiB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
