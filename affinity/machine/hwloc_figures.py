"""The numbers in hwloc's XML: distances between nodes, bandwidths and latencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from affinity.machine.hwloc_objects import HwlocObject, members
from affinity.machine.xml_tree import XmlElement, whole_number

_MEANS_LATENCY = 4
"""The bit in the kind of a matrix that tells latencies from bandwidths (hwloc/distances.h)."""


@dataclass(frozen=True, slots=True)
class Performance:
    """MB/s and ns as seen from the cpus next to a memory, None where nothing tells them.

    `zero` says that figures are given, but all of them are 0: the firmware left them out.
    """

    read_bandwidth: int | None
    write_bandwidth: int | None
    read_latency: int | None
    zero: bool


def read_distances(
    topology: XmlElement, objects: Sequence[HwlocObject]
) -> dict[tuple[int, int], int]:
    """The firmware's distances by node ids, empty if hwloc did not write them.

    Raises TopologyError if a matrix has not as many values as it should.
    """
    nodes = [item for item in objects if item.type == "NUMANode"]
    for matrix in topology.tagged("distances2"):
        if matrix.get("type") == "NUMANode" and _is_latency(matrix):
            return _square(matrix, _numbers(matrix, "indexes"), _numbers(matrix, "u64values"))
    for matrix in objects[0].element.tagged("distances"):
        levels = {sum(1 for _ in node.ancestors()) for node in nodes}
        if len(nodes) == matrix.number("nbobjs") and levels == {matrix.number("relative_depth")}:
            return _square(matrix, [node.os_index or 0 for node in nodes], _scaled(matrix))
    return {}


def _is_latency(matrix: XmlElement) -> bool:
    """Early 2.x gives no name; a user may have added matrices under other names."""
    kind = matrix.number("kind") or 0
    return matrix.get("name", "NUMALatency") == "NUMALatency" and bool(kind & _MEANS_LATENCY)


def _numbers(matrix: XmlElement, tag: str) -> list[int]:
    """The numbers of all children with this tag: long lists come in pieces."""
    words = [word for part in matrix.tagged(tag) for word in part.text.split()]
    numbers = [number for word in words if (number := whole_number(word)) is not None]
    if len(numbers) < len(words):
        raise matrix.error(f"something else than whole numbers in its {tag}")
    return numbers


def _scaled(matrix: XmlElement) -> list[int]:
    """hwloc 1.x: every value divided by the smallest one, which is given aside."""
    try:
        base = float(matrix.get("latency_base", "1"))
        values = [base * float(child.get("value")) for child in matrix.tagged("latency")]
        return [round(value) for value in values]
    except (ValueError, OverflowError):
        raise matrix.error("latencies that are no numbers") from None


def _square(
    matrix: XmlElement, ids: Sequence[int], values: Sequence[int]
) -> dict[tuple[int, int], int]:
    if len(values) != len(ids) ** 2:
        raise matrix.error(f"{len(values)} values for {len(ids)} nodes: {len(ids) ** 2} expected")
    pairs = ((origin, target) for origin in ids for target in ids)
    return dict(zip(pairs, values, strict=True))


def read_performance(
    topology: XmlElement, objects: Sequence[HwlocObject]
) -> dict[HwlocObject, Performance]:
    """What the ``<memattr>`` elements tell of each NUMA node for the cpus that it is near to."""
    by_number = {item.number: item for item in objects if item.number}
    figures: defaultdict[HwlocObject, defaultdict[str, list[int]]]
    figures = defaultdict(lambda: defaultdict(list))
    for attribute in topology.tagged("memattr"):
        for value in attribute.tagged("memattr_value"):
            memory = by_number.get(value.get("target_obj_gp_index"))
            if memory is not None and _is_local(value, memory, by_number):
                figures[memory][attribute.get("name")].append(value.number("value") or 0)
    return {memory: _performance(values) for memory, values in figures.items()}


def _is_local(value: XmlElement, memory: HwlocObject, by_number: Mapping[str, HwlocObject]) -> bool:
    """Whether it is as seen from cpus near the memory, or from everywhere alike."""
    if initiator := by_number.get(value.get("initiator_obj_gp_index")):
        return not set(initiator.cpus).isdisjoint(memory.near_cpus)
    return not value.get("initiator_cpuset") or bool(
        members(value, "initiator_cpuset", memory.near_cpus)
    )


def _performance(figures: Mapping[str, list[int]]) -> Performance:
    def best(choose: Callable[[Iterable[int]], int], *names: str) -> int | None:
        given = ([value for value in figures.get(name, ()) if value] for name in names)
        return next((choose(values) for values in given if values), None)

    read = best(max, "ReadBandwidth", "Bandwidth")
    write = best(max, "WriteBandwidth", "Bandwidth")
    latency = best(min, "ReadLatency", "Latency")
    return Performance(read, write, latency, zero=not (read or write or latency))
