"""Reads the virtual machine of a libvirt domain XML, as Linux would see it inside.

Formats and defaults are from libvirt's "Domain XML format" ("CPU model and topology", "Guest NUMA
topology", "ACPI Heterogeneous Memory Attribute Table"). Their effect in the guest is from libvirt's
qemu_command.c and Linux's drivers/acpi/numa/hmat.c.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import AffinityError
from affinity.machine.description import Description, NodeFacts, Processor, ThreadPlace
from affinity.machine.libvirt_memory import add_distances, add_performance, bytes_of, side_caches
from affinity.machine.xml_tree import XmlElement, parse_xml, whole_number

_VENDORS = {"Intel": "GenuineIntel", "AMD": "AuthenticAMD", "Hygon": "HygonGenuine"}

_INTEL_MODELS = {
    "KnightsMill": 133,
    "Skylake-Server": 85,
    "Cascadelake-Server": 85,
    "Cooperlake": 85,
    "Icelake-Server": 106,
    "SapphireRapids": 143,
    "GraniteRapids": 173,
}
"""QEMU's names of processors whose model number has a say in what their memory is."""

MOST_CPUS = 1 << 14
"""More than any virtual machine has; a number beyond is damage, and would fill the memory."""


def describe_libvirt_xml(text: str, name: str) -> Description:
    """The machine that the domain in `text`, the content of the file `name`, is shown by QEMU.

    All memory counts as free. Caches are not told. Raises TopologyError with the line if the text
    is no XML, is about something else than a domain, or contradicts itself.
    """
    domain = parse_xml(text, name)
    if domain.tag != "domain":
        raise domain.error("been found where libvirt's <domain> was expected")
    cpu = domain.at("cpu") or XmlElement("cpu", {}, name, domain.line)
    description = Description(processor=_processor(cpu), sources=[f"all: {name}, libvirt's XML"])
    description.notes.append("libvirt's XML tells of no caches and of no free memory: all is free")
    present, possible = _vcpus(domain)
    description.threads = {
        number: place for number, place in enumerate(_places(cpu, possible)) if number < present
    }
    if present < possible:
        description.offline_cpus = tuple(range(present, possible))
        description.notes.append(f"cpus {format_cpulist(range(present, possible))} are not plugged")
    _add_nodes(domain, cpu, description)
    return description


def _processor(cpu: XmlElement) -> Processor:
    chosen = cpu.at("model")
    model = chosen.text.strip() if chosen is not None else ""
    number = _INTEL_MODELS.get(model.split("-noTSX")[0].split("-v")[0])
    virtual = ("hypervisor",)
    if number is not None:
        return Processor("GenuineIntel", 6, number, model, virtual)
    vendor = cpu.at("vendor")
    named = vendor.text.strip() if vendor is not None else ""
    return Processor(_VENDORS.get(named, "unknown"), name=model or "unknown", flags=virtual)


def _levels(cpu: XmlElement, vcpus: int) -> tuple[int, ...]:
    """How many packages, dies in each, clusters, cores and threads; packages alone by default."""
    topology = cpu.at("topology")
    if topology is None:
        return (vcpus, 1, 1, 1, 1)
    levels = tuple(
        1 if (number := topology.number(level)) is None else number
        for level in ("sockets", "dies", "clusters", "cores", "threads")
    )
    if math.prod(levels) != vcpus:
        raise topology.error(f"{math.prod(levels)} cpus, but <vcpu> says {vcpus}")
    return levels


def _vcpus(domain: XmlElement) -> tuple[int, int]:
    """How many cpus there are when it starts, and how many with those that could be plugged in."""
    vcpu = domain.at("vcpu")
    if vcpu is None:
        return 1, 1
    possible = whole_number(vcpu.text) or 0
    if not 0 < possible <= MOST_CPUS:
        given = vcpu.text.strip()
        raise vcpu.error(f"{given!r} where a number of cpus up to {MOST_CPUS} was expected")
    return min(vcpu.number("current") or possible, possible), possible


def _places(cpu: XmlElement, vcpus: int) -> Iterator[ThreadPlace]:
    """The place of each cpu in turn: QEMU numbers threads first, then cores, then packages."""
    packages, dies, clusters, cores, threads = _levels(cpu, vcpus)
    in_package = dies * clusters * cores
    for number, (package, core) in enumerate(product(range(packages), range(in_package))):
        siblings = format_cpulist(range(number * threads, (number + 1) * threads))
        yield from (ThreadPlace(package, core, siblings) for _ in range(threads))


def _add_nodes(domain: XmlElement, cpu: XmlElement, description: Description) -> None:
    numa = cpu.at("numa")
    cells = _cells(numa) if numa is not None else {}
    if numa is None or not cells:
        size = bytes_of(domain.at("memory"))
        cpus = tuple(description.threads)
        description.nodes[0] = NodeFacts(id=0, cpus=cpus, memory_bytes=size, free_bytes=size)
        return
    homeless = set(description.threads)
    for number, cell in cells.items():
        facts = _facts(number, cell, description)
        if not homeless.issuperset(facts.cpus):
            raise cell.error("cpus that an earlier cell has too")
        homeless.difference_update(facts.cpus)
        description.nodes[number] = facts
    if homeless:
        first = next(iter(description.nodes.values()))
        first.cpus = tuple(sorted({*first.cpus, *homeless}))
        listed = format_cpulist(homeless)
        description.notes.append(f"cpus {listed} are in no cell: QEMU puts them into {first.id}")
    add_distances(cells, description)
    add_performance(numa, description)


def _cells(numa: XmlElement) -> dict[int, XmlElement]:
    """The cells by id, ascending; without an id, its position counts."""
    cells: dict[int, XmlElement] = {}
    for position, cell in enumerate(numa.tagged("cell")):
        given = cell.number("id")
        number = position if given is None else given
        if number in cells:
            raise cell.error(f"id {number}, which an earlier cell has too")
        cells[number] = cell
    return dict(sorted(cells.items()))


def _facts(number: int, cell: XmlElement, description: Description) -> NodeFacts:
    try:
        wanted = _cpus(cell.get("cpus"))
    except AffinityError as error:
        raise cell.error(f"cpus that cannot be read: {error}") from None
    unplugged = set(description.offline_cpus)
    if unknown := set(wanted).difference(description.threads, unplugged):
        raise cell.error(f"cpus {format_cpulist(unknown)}, which this machine does not have")
    size = bytes_of(cell, attribute="memory")
    return NodeFacts(
        id=number,
        cpus=tuple(cpu for cpu in wanted if cpu not in unplugged),
        offline_cpus=tuple(cpu for cpu in wanted if cpu in unplugged),
        memory_bytes=size,
        free_bytes=size,
        side_caches=side_caches(cell),
    )


def _cpus(text: str) -> tuple[int, ...]:
    """A list such as "0-7,^3": libvirt takes out what follows a caret."""
    if re.search(r"\d{6}", text):
        raise AffinityError(f"{text!r} goes beyond {MOST_CPUS} cpus")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    taken = parse_cpulist(",".join(part for part in parts if not part.startswith("^")))
    removed = parse_cpulist(",".join(part[1:] for part in parts if part.startswith("^")))
    return tuple(sorted(set(taken).difference(removed)))
