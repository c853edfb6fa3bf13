"""The objects of hwloc's XML as a list, each with its kind, its parents and its cpus.

hwloc 1.x nests NUMA nodes between packages and caches, and calls a package a Socket. hwloc 2.x and
3.0 attach memory beside the cpus that it is near to, and name caches by their level. Here all look
alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from affinity.cpulist import TOO_HIGH, members_of
from affinity.errors import TopologyError
from affinity.machine.xml_tree import XmlElement

UNKNOWN_INDEX = 2**32 - 1
"""What hwloc writes as os_index where it does not know it: -1 without a sign."""

_TYPES = {"Socket": "Package", "Node": "NUMANode", "Proc": "PU"}


@dataclass(slots=True, eq=False)
class HwlocObject:
    """One ``<object>``: `type` is Machine, Package, NUMANode, Cache, MemCache, Core, PU ...

    `cpus` are the OS ids of the hardware threads in it or, of a memory, those that it is near to
    by its own set.
    """

    element: XmlElement
    type: str
    parent: HwlocObject | None
    cpus: tuple[int, ...] = ()

    @property
    def os_index(self) -> int | None:
        """The number that the operating system gives it, None where hwloc does not know it."""
        number = self.element.number("os_index")
        return None if number is None or number >= UNKNOWN_INDEX else number

    @property
    def number(self) -> str:
        """hwloc's own number for it, by which the rest of the file refers to it."""
        return self.element.get("gp_index") or self.element.get("id").removeprefix("obj")

    @property
    def subtype(self) -> str:
        """What it is in particular, such as MCDRAM; hwloc 1.x has it among the infos."""
        return self.element.get("subtype") or self.info("Type")

    @property
    def is_side_cache(self) -> bool:
        """Whether it is memory used as a cache: MCDRAM or HBM, or DRAM before persistent memory."""
        return self.type == "MemCache" or self.subtype == "MemorySideCache"

    @property
    def near_cpus(self) -> tuple[int, ...]:
        """Its cpus or, if none of its own is offline, those of the innermost object with some.

        Conversions between hwloc's formats leave memory without cpus in the group of the DRAM
        beside it, with an empty set.
        """
        around = list(self.ancestors())
        present = {cpu for above in around for cpu in above.cpus}
        if self.cpus or not present.issuperset(all_members(self.element, "complete_cpuset")):
            return self.cpus
        # To be somewhere in the machine tells nothing.
        return next((above.cpus for above in around if above.cpus and above.parent), ())

    def info(self, name: str) -> str:
        """The value of its ``<info>`` with this name, empty if it has none."""
        infos = (info for info in self.element.tagged("info") if info.get("name") == name)
        return next((info.get("value") for info in infos), "")

    def ancestors(self) -> Iterator[HwlocObject]:
        """Its parent, the parent of that, and so on up to the machine."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def within(self, type: str) -> HwlocObject | None:  # noqa: A002 — hwloc's word
        """The innermost object of this type around it."""
        return next((above for above in self.ancestors() if above.type == type), None)


def read_objects(topology: XmlElement) -> list[HwlocObject]:
    """All objects below ``<topology>`` in the order of the file, the machine first.

    Raises TopologyError if there are no hardware threads, two with the same number, or two
    machines.
    """
    objects = list(_walk(topology, None))
    machines = [item for item in objects if item.type == "Machine" and item.parent is not None]
    if len(machines) > 1:
        raise _several(topology, machines)
    for machine in [item for item in objects if item.parent is None][1:]:
        raise machine.element.error("another machine before it: one was expected")
    inside: dict[HwlocObject, list[int]] = {}
    for thread in (item for item in objects if item.type == "PU"):
        cpu = thread.os_index
        if cpu is None:
            raise thread.element.error("no os_index, so its cpu cannot be told")
        for holder in (thread, *thread.ancestors()):
            inside.setdefault(holder, []).append(cpu)
    if not inside:
        raise TopologyError(
            f"{topology.source} tells of no hardware threads (PU objects): write it on the "
            "machine itself with `lstopo --of xml`, without filters"
        )
    known = inside[objects[0]]
    cpu, times = Counter(known).most_common(1)[0]
    if times > 1:
        raise TopologyError(f"{topology.source} has cpu {cpu} {times} times: it is damaged")
    for item in objects:
        item.cpus = tuple(sorted(inside.get(item) or members(item.element, "cpuset", known)))
    return objects


def _several(topology: XmlElement, machines: list[HwlocObject]) -> TopologyError:
    """hwloc 1.x could assemble the machines of a cluster in one file, under a System."""
    named = [item.info("HostName") or f"line {item.element.line}" for item in machines]
    return TopologyError(
        f"{topology.source} describes {len(machines)} machines ({', '.join(named)}): workers are "
        "placed on one; give the file of one of them, as `lstopo machine.xml` writes it there"
    )


def members(element: XmlElement, attribute: str, known: Iterable[int]) -> tuple[int, ...]:
    """Those of `known` that are in one of the element's sets, such as its allowed_cpuset."""
    bits, end = _bits(element, attribute)
    return tuple(index for index in known if index >= end or bits >> index & 1)


def all_members(element: XmlElement, attribute: str) -> tuple[int, ...]:
    """What is in one of the element's sets; a set without an end is cut where its words end."""
    bits, _ = _bits(element, attribute)
    return members_of(bits)


def _bits(element: XmlElement, attribute: str) -> tuple[int, float]:
    """A set as the bits of a number, and the index from which all further ones are in it.

    hwloc writes words of 32 bits, the highest first, leaves out zeros between its commas, and
    starts sets that have no end with ``0xf...f``.
    """
    text = element.get(attribute, "0x0")
    endless = text.startswith("0xf...f")
    words = text.removeprefix("0xf...f").removeprefix(",").split(",")
    if not all(re.fullmatch(r"(0x[0-9a-fA-F]{1,8})?", word) for word in words):
        raise element.error(f"{attribute}={text!r} where words like 0x0000000f were expected")
    bits = int("".join(word.removeprefix("0x").zfill(8) for word in words), 16)
    if bits.bit_length() > TOO_HIGH:
        raise element.error(f"{attribute} with members of {TOO_HIGH} or more: none is so high")
    if not endless:
        return bits, float("inf")
    return bits, 0 if text == "0xf...f" else 32 * len(words)


def _walk(element: XmlElement, parent: HwlocObject | None) -> Iterator[HwlocObject]:
    for child in element.tagged("object"):
        written = child.get("type")
        cache = re.fullmatch(r"(L\d+i?)?Cache", written)
        item = HwlocObject(child, "Cache" if cache else _TYPES.get(written, written), parent)
        yield item
        yield from _walk(child, item)
