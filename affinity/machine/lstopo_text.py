"""Reads lstopo's text output, short or verbose, of hwloc 1.x, 2.x and 3.0.

The text is the tree of hwloc's XML without cpusets and distances, and is turned into such a tree
again. Memory beside cpus (2.x) is taken to be near to all cpus of its parent. The short form rounds
memory sizes to GB, so sizes are taken from the verbose form only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from affinity.cpulist import TOO_HIGH
from affinity.errors import TopologyError
from affinity.machine.description import Description
from affinity.machine.hwloc_objects import all_members
from affinity.machine.hwloc_xml import describe_hwloc
from affinity.machine.xml_tree import DEEPEST, XmlElement

_OBJECT = re.compile(
    r"(?P<type>[A-Za-z]\w*?)(?:\((?P<subtype>[^()]*)\))?(?: L#\d+)?(?: (?P<index>P#\d+))?"
    r'(?: \((?P<told>.*)\))?(?: "[^"]*")?'
)
_DEVICE = re.compile(
    r"(\d+ x \{ |Host|Bridge|PCI|Net|OpenFabrics|Block|Storage|GPU|Co-?Proc|DMA|Misc|OSDev)"
)
"""Objects that are no processor and no memory, some with words of their own behind the kind."""

_CACHE = re.compile(r"L(\d)(d|i)?(?:Cache)?")
_AFTER_TREE = re.compile(r"\s*depth 0:|Special depth|(?i:relative latency)|\d+ processors not")
_FIELD = re.compile(r'(\w+)=("[^"]*"|\S*)')
_AMOUNT = re.compile(r"(\d+)\s*(K|M|G|T)?i?B")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_CACHE_TYPES = {None: "0", "d": "1", "i": "2"}


def describe_lstopo(text: str, name: str) -> Description:
    """The machine that lstopo showed in `text`, the content of the file `name`.

    Raises TopologyError with the line if it is no tree of hwloc's objects.
    """
    topology = XmlElement("topology", {}, name, 0)
    stack = [(-1, topology)]
    for number, line in enumerate(text.split("\n"), start=1):
        if _AFTER_TREE.match(line):
            break
        if line.strip():
            depth = len(line) - len(line.lstrip())
            stack = [(at, element) for at, element in stack if at < depth]
            for element in _elements(line.strip(), name, number):
                if len(stack) > DEEPEST:
                    raise element.error(f"more than {DEEPEST} objects around it")
                stack[-1][1].children.append(element)
                stack.append((depth, element))
    _add_sets(topology, text)
    return describe_hwloc(topology, f"all: {name}, the text of lstopo")


def _elements(line: str, name: str, number: int) -> Iterator[XmlElement]:
    """The objects of a line, each in the one before: the short form joins them by a plus."""
    for part in re.split(r" \+ (?=[A-Z]\w*(?:\([^()]*\))? [LP]#\d)", line):
        found = _OBJECT.fullmatch(part)
        if _DEVICE.match(part):
            yield XmlElement("object", {"type": "Misc"}, name, number)
            continue
        if found is None:
            raise TopologyError(f"{name}, line {number}: {part!r} is no object of lstopo's tree")
        element = XmlElement("object", {}, name, number)
        told = " ".join(filter(None, (found["index"], found["told"])))
        _fill(element, found["type"], found["subtype"] or "", told)
        yield element


def _fill(element: XmlElement, kind: str, subtype: str, told: str) -> None:
    fields = {key: value.strip('"') for key, value in _FIELD.findall(told)}
    given = {"type": kind, "subtype": subtype}
    if index := re.search(r"\bP#(\d+)", told):
        given["os_index"] = index[1]
        # Sets have a bit for each number up to the highest.
        if kind in ("PU", "NUMANode", "Node") and int(index[1][:20]) >= TOO_HIGH:
            raise element.error(f"P#{index[1][:20]}: no cpu and no node is {TOO_HIGH} or more")
    if cache := _CACHE.fullmatch(kind):
        given |= {"type": f"L{cache[1]}Cache", "depth": cache[1]}
        given |= {"cache_type": _CACHE_TYPES[cache[2]], "cache_size": _bytes(fields, "size", told)}
        given["cache_linesize"] = fields.get("linesize", "")
    elif kind == "MemCache":
        given["cache_size"] = _bytes(fields, "size", told)
    elif kind in ("NUMANode", "Node"):
        given["local_memory"] = _bytes(fields, "local", "")  # The short form rounds it.
    element.attributes = {key: value for key, value in given.items() if value}
    element.children = [
        XmlElement("info", {"name": key, "value": value}, element.source, element.line)
        for key, value in fields.items()
    ]


def _bytes(fields: dict[str, str], name: str, told: str) -> str:
    """The amount with this name or, in the short form, the only one; empty if there is none."""
    found = _AMOUNT.search(fields.get(name, "") if fields else told)
    # Python itself refuses to read numbers of thousands of digits.
    return str(int(found[1][:20]) * _UNITS[found[2] or ""]) if found else ""


def _add_sets(topology: XmlElement, text: str) -> None:
    """Give sets to the memories that have no cpus inside, and to the machine what is offline."""
    memories = list(_memories_in(topology, []))
    nested = any(_cpus(memory) for memory, _ in memories)
    everywhere = {id(memory) for machine in topology.children for memory in machine.children}
    for memory, around in memories if not nested else ():
        # What hangs at the machine while others are deeper has no cpus of its own.
        apart = id(memory) in everywhere and any(id(it) not in everywhere for it, _ in memories)
        memory.attributes["cpuset"] = "0x0" if apart else _set(around)
    if offline := re.search(r"^\d+ processors not represented in topology: (\S+)$", text, re.M):
        line = text.count("\n", 0, offline.start()) + 1
        told = XmlElement("processors", {"mask": offline[1]}, topology.source, line)
        missing = all_members(told, "mask")
        for machine in topology.tagged("object"):
            machine.attributes["complete_cpuset"] = _set([*_cpus(machine), *missing])


def _memories_in(element: XmlElement, around: list[int]) -> Iterator[tuple[XmlElement, list[int]]]:
    """The memories below it, each with the cpus of the object that is no memory around it."""
    here = around if element.get("type") in ("MemCache", "NUMANode") else _cpus(element)
    for child in element.tagged("object"):
        if child.get("type") in ("NUMANode", "Node"):
            yield child, here
        yield from _memories_in(child, here)


def _cpus(element: XmlElement) -> list[int]:
    own = element.number("os_index") if element.get("type") == "PU" else None
    inside = [cpu for child in element.tagged("object") for cpu in _cpus(child)]
    return inside if own is None else [own, *inside]


def _set(cpus: Iterable[int]) -> str:
    bits = sum(1 << cpu for cpu in set(cpus))
    words = range(max(bits.bit_length() - 1, 0) // 32, -1, -1)
    return ",".join(f"0x{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in words)
