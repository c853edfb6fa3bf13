"""The memory of libvirt's guest NUMA cells: sizes, caches, distances, bandwidths, latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

from affinity.machine.description import Description
from affinity.machine.xml_tree import XmlElement, whole_number
from affinity.topology import SideCache

_UNITS: dict[str, int] = {"b": 1, "bytes": 1} | {
    prefix + ending: base ** (power + 1)
    for power, prefix in enumerate("kmgtpe")
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
"""Bytes in each of libvirt's units, whose case does not count."""

MIB = 1 << 20


def bytes_of(element: XmlElement | None, attribute: str | None = None) -> int:
    """A size in bytes: the element's text or one of its attributes, with its unit or in KiB.

    0 where there is no element. Raises TopologyError for what is no number or an unknown unit.
    """
    if element is None:
        return 0
    text = (element.get(attribute) if attribute else element.text).strip()
    unit = element.get("unit", "KiB")
    number = whole_number(text)
    if number is None:
        raise element.error(f"{text!r} where an amount of memory was expected")
    if unit.lower() not in _UNITS:
        raise element.error(f"unit {unit!r}: expected B, KiB, MiB, GiB, TiB, KB, MB, GB or TB")
    return number * _UNITS[unit.lower()]


def side_caches(cell: XmlElement) -> tuple[SideCache, ...]:
    """The cell's memory-side caches, by level."""
    caches = sorted(cell.tagged("cache"), key=lambda cache: cache.number("level") or 0)
    return tuple(
        SideCache(
            size_bytes=_amount(cache.at("size")),
            line_bytes=_amount(cache.at("line")),
            associativity={"direct": "direct", "full": "indexed"}.get(
                cache.get("associativity"), "unknown"
            ),
            evidence=f"libvirt's <cache> on line {cache.line}",
        )
        for cache in caches
    )


def _amount(element: XmlElement | None) -> int:
    return bytes_of(element, attribute="value") if element is not None else 0


def add_distances(cells: Mapping[int, XmlElement], description: Description) -> None:
    """Add the distances of the cells by id, if any says one; what is not said is 10 or 20.

    A distance that is said in one direction only counts in both, as libvirt has it.
    """
    said: dict[tuple[int, int], int] = {}
    for origin, cell in cells.items():
        distances = cell.at("distances")
        for sibling in distances.tagged("sibling") if distances is not None else ():
            target, value = sibling.number("id"), sibling.number("value")
            if target is None or target not in cells or value is None:
                raise sibling.error(
                    f"id {target} and value {value}: expected a cell's id and a distance"
                )
            said[origin, target] = value
    if not said:
        return
    for pair in product(cells, cells):
        default = 10 if pair[0] == pair[1] else 20
        description.distances[pair] = said.get(pair, said.get(pair[::-1], default))


def add_performance(numa: XmlElement, description: Description) -> None:
    """Add what ``<interconnects>`` says of each node as seen from the cpus nearest to it.

    These are its own or, for memory without cpus, those with the least latency or most bandwidth,
    which libvirt makes its initiator. Figures of caches are not of the memory, and left out.
    """
    interconnects = numa.at("interconnects")
    if interconnects is None:
        return
    latency = _figures(interconnects, "latency", "read", description)
    bandwidth = _figures(interconnects, "bandwidth", "read", description)
    written = _figures(interconnects, "bandwidth", "write", description)
    for node in description.nodes.values():
        seen = sorted(
            (latency.get((origin, target), math.inf), -bandwidth.get((origin, target), 0), origin)
            for origin, target in {**latency, **bandwidth}
            if target == node.id and description.nodes[origin].cpus
        )
        if not seen:
            continue
        nearest = node.id if node.cpus else seen[0][2]
        if not node.cpus:
            node.initiators, node.initiators_source = (nearest,), "libvirt's table of interconnects"
        node.read_latency = latency.get((nearest, node.id)) or None
        node.read_bandwidth = bandwidth.get((nearest, node.id)) or None
        node.write_bandwidth = written.get((nearest, node.id)) or None
        node.performance_source = "libvirt's table of interconnects"


def _figures(
    interconnects: XmlElement, tag: str, access: str, description: Description
) -> dict[tuple[int, int], int]:
    """Latencies in ns or bandwidths in MiB/s by initiator and target, for one way of access."""
    figures: dict[tuple[int, int], int] = {}
    known = set(description.nodes)
    for link in (link for link in interconnects.tagged(tag) if "cache" not in link.attributes):
        origin, target = link.number("initiator"), link.number("target")
        if origin is None or target is None or not known >= {origin, target}:
            raise link.error(f"initiator {origin} and target {target}: expected ids of cells")
        if link.get("type", "access") in ("access", access):
            value = bytes_of(link, "value") // MIB if tag == "bandwidth" else link.number("value")
            figures[origin, target] = value or 0
    return figures
