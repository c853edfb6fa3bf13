"""What the kernel tells of a machine in sysfs and procfs, without any library.

Containers hide some of these files, old kernels and captures have others: what was read instead
is said in the sources, and what cannot be told is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from affinity.cpulist import format_cpulist
from affinity.errors import TopologyError
from affinity.machine.description import Description, Processor, ThreadPlace
from affinity.machine.files import (
    CPUINFO,
    MachineFiles,
    find_cpus,
    numbers,
    read_cpuinfo,
    read_first_processor,
    read_int,
    read_list,
    to_int,
)
from affinity.machine.processors import arm_part
from affinity.machine.smbios import add_firmware
from affinity.machine.sysfs_devices import add_devices
from affinity.machine.sysfs_memory import add_memory
from affinity.topology import Cache, CacheKind

CPUS = "sys/devices/system/cpu"

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
    add_firmware(files, description)
    _note_hybrid(files, description)
    return description


def _processor(fields: dict[str, str]) -> Processor:
    return Processor(
        vendor=fields.get("vendor_id", fields.get("CPU implementer", "unknown")),
        family=_number(fields.get("cpu family")),
        model=_number(fields.get("model")) or arm_part(fields.get("CPU part", "")),
        name=fields.get("model name", fields.get("cpu", "unknown")),
        flags=tuple(fields.get("flags", fields.get("Features", "")).split()),
    )


def _note_hybrid(files: MachineFiles, description: Description) -> None:
    fast, slow = (read_list(files, f"sys/devices/{kind}/cpus") for kind in ("cpu_core", "cpu_atom"))
    if fast and slow:
        description.notes.append(
            f"cores are of two kinds, performance (cpus {format_cpulist(fast)}) and efficiency "
            f"(cpus {format_cpulist(slow)}): workers on the latter are slower, and all wait for "
            "them unless they are left out"
        )


def _number(text: str | None) -> int | None:
    # On POWER, "model" is a name.
    return int(text) if text is not None and text.isdecimal() else None


def _add_threads(files: MachineFiles, description: Description, allowed: Iterable[int]) -> None:
    threads, source = _read_threads(files)
    if hidden := set(allowed).difference(threads):
        threads |= {cpu: ThreadPlace(0, cpu, f"cpu {cpu} alone") for cpu in hidden}
        source += f", cpus {format_cpulist(hidden)}: allowed but not shown, each a core"
    present = read_list(files, f"{CPUS}/present") or numbers(files, CPUS, "cpu")
    description.threads = dict(sorted(threads.items()))
    description.offline_cpus = tuple(sorted(set(present).difference(threads)))
    description.sources.append(source)


def _read_threads(files: MachineFiles) -> tuple[dict[int, ThreadPlace], str]:
    folders = set(numbers(files, CPUS, "cpu"))
    listed = read_list(files, f"{CPUS}/online")
    online = folders if listed is None else set(listed)
    threads = {cpu: _sysfs_thread(files, cpu) for cpu in online}
    known = {cpu: thread for cpu, thread in threads.items() if thread is not None}
    if known and len(known) == len(threads):
        # Some containers list other cpus as online than those that run: folders tell of the rest,
        # as an offline cpu has no topology.
        beside = {cpu: _sysfs_thread(files, cpu) for cpu in folders - online}
        unlisted = {cpu: thread for cpu, thread in beside.items() if thread is not None}
        note = ", some of whose cpus are not listed as online" if unlisted else ""
        return {**known, **unlisted}, f"cores: /{CPUS}{note}"
    processors = read_cpuinfo(files)
    if not processors:
        raise TopologyError(
            f"cannot tell the cpus of this machine: neither {files.where(CPUS)}/cpu*/topology nor "
            f"{files.where(CPUINFO)} can be read; mount one, or capture it too"
        )
    numbered = {cpu: _cpuinfo_thread(files, cpu, block) for cpu, block in processors.items()}
    return numbered, f"cores: /{CPUINFO}, as /{CPUS} does not tell them"


def _sysfs_thread(files: MachineFiles, cpu: int) -> ThreadPlace | None:
    topology = f"{CPUS}/cpu{cpu}/topology"
    core = read_int(files, f"{topology}/core_id")
    if core is None:
        return None
    package = read_int(files, f"{topology}/physical_package_id") or 0
    # Core ids repeat between the dies of some packages, sets of siblings never do.
    siblings = files.read_text(f"{topology}/thread_siblings_list")
    if siblings is None:
        siblings = files.read_text(f"{topology}/thread_siblings")
    if siblings is None:
        siblings = f"die {files.read_text(f'{topology}/die_id')}"
    return ThreadPlace(max(package, 0), core, siblings)


def _cpuinfo_thread(files: MachineFiles, cpu: int, block: dict[str, str]) -> ThreadPlace:
    where = files.where(CPUINFO)
    package = to_int(block.get("physical id", "0"), where)
    return ThreadPlace(package, to_int(block.get("core id", str(cpu)), where))


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
