"""Reads a machine from sysfs and procfs, without any library.

Containers, old kernels and captures lack some of these files. The sources of the result name the
replacement that was read; facts without any source are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, Processor, ThreadPlace
from affinity.machine.files import (
    CPUINFO,
    MachineFiles,
    find_cpus,
    numbers,
    read_first_processor,
    read_int,
    read_list,
    to_int,
)
from affinity.machine.gpus import add_gpus
from affinity.machine.processors import arm_part
from affinity.machine.smbios import add_firmware
from affinity.machine.sysfs_cpus import CPUS, read_cpus_and_cores
from affinity.machine.sysfs_devices import add_devices
from affinity.machine.sysfs_memory import add_memory
from affinity.numbers import whole_number
from affinity.topology import Cache, CacheKind

_CACHE_KINDS: dict[str, CacheKind] = {
    "Data": "data",
    "Instruction": "instruction",
    "Unified": "unified",
}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def describe_sysfs(files: MachineFiles, allowed: Iterable[int] = ()) -> Description:
    """Describe the machine whose ``sys`` and ``proc`` trees these are.

    `allowed` are cpus that exist for certain. Some containers hide them in the files; each that
    these do not tell counts as a core.

    Raises TopologyError when no file tells the cpus, or a file holds what the kernel never writes.
    """
    fields = read_first_processor(files)
    description = Description(processor=_processor(fields))
    if not fields:
        description.notes.append(f"/{CPUINFO} cannot be read, so the processor is not known")
    _add_threads(files, description, allowed)
    _add_caches(files, description)
    add_memory(files, description)
    add_devices(files, description)
    add_gpus(files, description)
    add_firmware(files, description)
    _note_hybrid(files, description)
    return description


def _processor(fields: dict[str, str]) -> Processor:
    return Processor(
        vendor=_first(fields, "vendor_id", "CPU implementer", "vendor") or "unknown",
        family=whole_number(_first(fields, "cpu family", "family")),
        # On POWER, "model" is a name.
        model=whole_number(fields.get("model")) or arm_part(fields.get("CPU part", "")),
        name=_first(fields, "model name", "cpu model", "cpu", "Processor") or "unknown",
        flags=tuple(_first(fields, "flags", "Features").split()),
    )


def _first(fields: dict[str, str], *names: str) -> str:
    """What the first of these fields says that is there: each architecture has its own words."""
    return next((fields[name] for name in names if name in fields), "")


def _note_hybrid(files: MachineFiles, description: Description) -> None:
    fast, slow = (read_list(files, f"sys/devices/{kind}/cpus") for kind in ("cpu_core", "cpu_atom"))
    if fast and slow:
        description.notes.append(
            f"cores are of two kinds, performance (cpus {format_cpulist(fast)}) and efficiency "
            f"(cpus {format_cpulist(slow)}): workers on the latter are slower, and all wait for "
            "them unless they are left out"
        )


def _add_threads(files: MachineFiles, description: Description, allowed: Iterable[int]) -> None:
    cpus = read_cpus_and_cores(files)
    threads, source = cpus.places, cpus.source
    if hidden := set(allowed).difference(threads):
        threads |= {cpu: ThreadPlace(0, cpu, f"cpu {cpu} alone") for cpu in hidden}
        source += f", cpus {format_cpulist(hidden)}: allowed but not shown, each a core"
    description.threads = dict(sorted(threads.items()))
    description.offline_cpus = tuple(cpu for cpu in cpus.offline if cpu not in threads)
    description.sources.append(source)
    description.notes += cpus.notes


def _add_caches(files: MachineFiles, description: Description) -> None:
    covered: defaultdict[int, set[int]] = defaultdict(set)
    caches: list[Cache] = []
    for cpu in description.threads:
        folder = f"{CPUS}/cpu{cpu}/cache"
        for index in numbers(files, folder, "index"):
            # All that share a cache show it under the same index: it is read once.
            if cpu not in covered[index]:
                cache = _read_cache(files, f"{folder}/index{index}", cpu, description)
                covered[index].update(cache.cpus if cache else ())
                caches += [cache] if cache else []
    description.caches = sorted(caches, key=lambda cache: (cache.level, cache.kind, cache.cpus))
    hidden = "" if caches else ": none shown, so nothing tells which cores share one"
    description.sources.append(f"caches: /{CPUS}/cpu*/cache{hidden}")


def _read_cache(
    files: MachineFiles, folder: str, cpu: int, description: Description
) -> Cache | None:
    level, kind = read_int(files, f"{folder}/level"), files.read_text(f"{folder}/type")
    cpus = find_cpus(files, folder, "shared_cpu_list", "shared_cpu_map")
    if level is None or kind not in _CACHE_KINDS or cpus is None:
        return None
    place = description.threads[cpu]
    # Some kernels leave the set empty: the threads of a core share all of its caches at least.
    cpus = cpus or tuple(it for it, other in description.threads.items() if other == place)
    return Cache(
        level=level,
        kind=_CACHE_KINDS[kind],
        size_bytes=_size(files, f"{folder}/size"),
        line_bytes=read_int(files, f"{folder}/coherency_line_size") or 0,
        cpus=tuple(it for it in sorted({cpu, *cpus}) if it in description.threads),
    )


def _size(files: MachineFiles, path: str) -> int:
    """Bytes of "32K"; 0 where it is missing, as in some virtual machines."""
    text = files.read_text(path) or "0"
    unit = _UNITS.get(text[-1], 1)
    return unit * to_int(text[:-1] if unit > 1 else text, files.where(path))
