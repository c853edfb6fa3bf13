"""Reads a machine from the output of ``lstopo --of xml``.

Reads the formats of hwloc 1.x, 2.x and 3.0. The meaning of types, attributes and infos is from
hwloc's documentation ("Object attributes", "Importing and exporting topologies from/to XML files")
and sources (topology-xml.c, topology-linux.c of 2.x).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, KnightsFirmware, Processor, ThreadPlace
from affinity.machine.hwloc_devices import gpus
from affinity.machine.hwloc_memory import describe_memory
from affinity.machine.hwloc_objects import HwlocObject, all_members, members, read_objects
from affinity.machine.processors import arm_part
from affinity.machine.xml_tree import XmlElement, parse_xml, whole_number
from affinity.topology import Cache, CacheKind

_CACHE_KINDS: dict[str, CacheKind] = {"0": "unified", "1": "data", "2": "instruction"}

NO_CORES = (
    "hwloc tells no cores here (lstopo can leave them out): each hardware thread counts as one"
)

_CLUSTER_MODES = ("All2All", "Hemisphere", "SNC2", "SNC4")
_MEMORY_MODES = ("Cache", "Flat", "Hybrid25", "Hybrid50")


def describe_hwloc_xml(text: str, name: str) -> Description:
    """The machine that hwloc wrote down in `text`, the content of the file `name`.

    Free memory is not in it: all memory counts as free. Raises TopologyError with the line if the
    text is no XML, not hwloc's, or tells of no hardware threads.
    """
    topology = parse_xml(text, name)
    if topology.tag != "topology":
        raise topology.error("been found where hwloc's <topology> was expected")
    return describe_hwloc(topology, f"all: {name}, the XML of {_hwloc(topology)}")


def describe_hwloc(topology: XmlElement, source: str) -> Description:
    """The machine in hwloc's tree of objects, read from `source`; raises as above."""
    objects = read_objects(topology)
    machine = objects[0]
    description = Description(
        processor=_processor(objects),
        threads=_threads(objects),
        caches=list(_caches(objects)),
        knights=_knights(topology, objects),
        offline_cpus=_offline_cpus(machine),
        sources=[source],
        gpus=list(gpus(objects)),
    )
    describe_memory(topology, objects, description)
    description.notes += _notes(machine, description)
    if all(item.type != "Core" for item in objects):
        description.notes.append(NO_CORES)
    return description


def _hwloc(topology: XmlElement) -> str:
    machine = next(topology.tagged("object"), topology)
    version = _machine_info(topology, HwlocObject(machine, "Machine", None), "hwlocVersion")
    layout = topology.get("version", "1")
    return f"hwloc {version} (format {layout})" if version else f"hwloc (format {layout})"


def _machine_info(topology: XmlElement, machine: HwlocObject, name: str) -> str:
    """What is said of the whole machine: by its object or, since 3.0, beside it."""
    beside = (info.get("value") for info in topology.tagged("info") if info.get("name") == name)
    return machine.info(name) or next(beside, "")


def _processor(objects: list[HwlocObject]) -> Processor:
    """The first package's; hwloc describes the machine's where it knows of no packages."""
    holders = [item for item in objects if item.type in ("Package", "Machine")]
    words = ("CPUModel", "CPUModelNumber", "CPUVendor", "CPUImplementer")
    told = next((item for item in holders if any(map(item.info, words))), objects[0])
    return Processor(
        vendor=told.info("CPUVendor") or told.info("CPUImplementer") or "unknown",
        family=whole_number(told.info("CPUFamilyNumber")),
        model=whole_number(told.info("CPUModelNumber")) or arm_part(told.info("CPUPart")),
        name=told.info("CPUModel").strip() or "unknown",
    )


def _threads(objects: list[HwlocObject]) -> dict[int, ThreadPlace]:
    packages, cores = _numbered(objects, "Package"), _numbered(objects, "Core")
    places = {}
    for cpu, thread in ((o.cpus[0], o) for o in objects if o.type == "PU"):
        package, core = thread.within("Package"), thread.within("Core")
        places[cpu] = ThreadPlace(
            package=packages[package] if package else 0,
            core=cores[core] if core else cpu,
            siblings=format_cpulist(core.cpus) if core else f"cpu {cpu} alone",
        )
    return places


def _numbered(objects: Iterable[HwlocObject], kind: str) -> dict[HwlocObject, int]:
    """The system's numbers of these objects or, if one has none, their positions in the file."""
    found = [item for item in objects if item.type == kind]
    numbers = [number for item in found if (number := item.os_index) is not None]
    return dict(
        zip(found, numbers if len(numbers) == len(found) else range(len(found)), strict=True)
    )


def _caches(objects: Iterable[HwlocObject]) -> Iterator[Cache]:
    for item in objects:
        if item.type == "Cache" and item.cpus and not item.is_side_cache:
            element = item.element
            yield Cache(
                level=element.number("depth") or 0,
                kind=_CACHE_KINDS.get(element.get("cache_type"), "unified"),
                size_bytes=element.number("cache_size") or 0,
                line_bytes=element.number("cache_linesize") or 0,
                cpus=item.cpus,
            )


def _knights(topology: XmlElement, objects: list[HwlocObject]) -> KnightsFirmware | None:
    """The modes of a Xeon Phi in hwloc's words, without those that it also uses as a guess."""
    cluster = _machine_info(topology, objects[0], "ClusterMode")
    memory = _machine_info(topology, objects[0], "MemoryMode")
    if not cluster and not memory:
        return None
    caches = (item.element.number("cache_size") for item in objects if item.is_side_cache)
    return KnightsFirmware(
        cluster_mode=cluster if cluster in _CLUSTER_MODES else None,
        memory_mode=memory if memory in _MEMORY_MODES else None,
        cache_bytes=max((size for size in caches if size), default=0),
        source=f"hwloc's ClusterMode={cluster} MemoryMode={memory}",
    )


def _offline_cpus(machine: HwlocObject) -> tuple[int, ...]:
    """Cpus that exist but are not among the machine's threads."""
    present = {*machine.cpus, *all_members(machine.element, "online_cpuset")}
    return tuple(
        cpu for cpu in all_members(machine.element, "complete_cpuset") if cpu not in present
    )


def _notes(machine: HwlocObject, description: Description) -> Iterator[str]:
    unsized = [node.id for node in description.nodes.values() if not node.size_told]
    if unsized:
        yield f"hwloc does not tell how much memory NUMA node {format_cpulist(unsized)} has"
    if len(unsized) < len(description.nodes):
        yield "hwloc does not tell how much memory is free: all of it counts as free"
    if offline := description.offline_cpus:
        yield (
            f"cpus {format_cpulist(offline)} are not described: they were offline, or not allowed "
            "to the process that ran hwloc (lstopo --disallowed shows those)"
        )
    yield from _forbidden(machine, "allowed_cpuset", "cpus", machine.cpus)
    yield from _forbidden(machine, "allowed_nodeset", "NUMA nodes", description.nodes)
    missing = set(all_members(machine.element, "complete_nodeset")).difference(description.nodes)
    if missing:
        yield f"NUMA nodes {format_cpulist(missing)} are mentioned but not described by hwloc"
    if description.knights and "ClusterMode=Quadrant" in description.knights.source:
        yield (
            "hwloc says ClusterMode=Quadrant also where nothing told it the mode: all-to-all and "
            "hemisphere look the same"
        )


def _forbidden(
    machine: HwlocObject, attribute: str, word: str, known: Iterable[int]
) -> Iterator[str]:
    if not machine.element.get(attribute):
        return
    if forbidden := set(known).difference(members(machine.element, attribute, known)):
        listed = format_cpulist(forbidden)
        yield f"{word} {listed} were not allowed to the process that ran hwloc"
