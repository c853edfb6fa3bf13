"""Reads the output of ``numactl -H``, and of ``lscpu`` if that is in the same text.

numactl tells memories, cpus and distances, but not the processor, packages or cores. These are
taken from lscpu, from comments (``# Xeon Phi 7250 (68 cores x 4 HT)``) or from patterns in
numactl's output; the notes say which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import AffinityError, TopologyError
from affinity.machine.description import Description, NodeFacts, Processor
from affinity.machine.numactl_cores import CoreWords, place_threads, tiles_of_knights
from affinity.numbers import whole_number

_PROMPT = re.compile(
    r"^.*[$%>#]\s*(sudo )?(numactl|lscpu)\b"
    # Or with nothing after it: "[user@host ~]$", "user@host:~>", "$".
    r"|^(\[.*\]|\S+@\S+( \S+)?|[\w.~/-]*)\s*[$%>#]$"
)
_NODE = re.compile(r"^node\s+(\d{1,5})\s+(cpus|size|free)\s*:\s*(.*)$")
_AVAILABLE = re.compile(r"^available:\s*\d+\s+nodes?\s*\((.*)\)$")
_ROW = re.compile(r"^(\d{1,5})\s*:\s*(.*)$")
_LSCPU = re.compile(
    r"^(Architecture|CPU op-mode|Address sizes|Byte Order|CPU\(s\)|Vendor ID|Model name|"
    r"CPU family|Model|Thread\(s\) per core|Core\(s\) per socket|Socket\(s\)|Flags)\b.*:"
)
_NOT_TOLD = "<not available>"
_UNITS = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


@dataclass(slots=True)
class _Text:
    """The parts of the text, as far as they have been read."""

    name: str
    announced: tuple[int, ...] = ()
    nodes: dict[int, NodeFacts] = field(default_factory=dict)
    told_free: set[int] = field(default_factory=set)
    read: set[tuple[int, str]] = field(default_factory=set)
    header: tuple[int, ...] | None = None
    distances: dict[tuple[int, int], int] = field(default_factory=dict)
    lscpu: dict[str, str] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)


def describe_numactl(text: str, name: str) -> Description:
    """The machine that ``numactl -H`` described in `text`, the content of the file `name`.

    Raises TopologyError with the line if it cannot be read, if two nodes share a part of their
    cpus, if a node is described twice, or if none is.
    """
    parts = _Text(name)
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            _read_line(parts, line.strip())
        except AffinityError as error:
            raise TopologyError(f"{name}, line {number}: {error}: {line.strip()[:200]!r}") from None
    if not any(facts.cpus for facts in parts.nodes.values()):
        raise TopologyError(
            f"{name} describes no NUMA node with cpus: expected the whole output of `numactl -H`, "
            "with lines such as 'node 0 cpus: 0 1 2 3'"
        )
    return _describe(parts)


def _read_line(parts: _Text, line: str) -> None:
    if line.startswith("#"):
        parts.comments.append(line.lstrip("# "))
    elif not line or _PROMPT.match(line) or line.startswith("No distance information"):
        return
    elif found := _AVAILABLE.match(line):
        parts.announced = parse_cpulist(found[1])
    elif found := _NODE.match(line):
        _read_node(parts, int(found[1]), found[2], found[3])
    elif line.startswith("node distances:"):
        parts.header = ()
    elif parts.header is not None and re.match(r"^node(\s+\d{1,5})+$", line):
        parts.header = tuple(int(word) for word in line.split()[1:])
    elif parts.header is not None and (found := _ROW.match(line)):
        _read_row(parts, int(found[1]), found[2])
    elif parts.lscpu or _LSCPU.match(line):
        key, colon, value = line.partition(":")
        if colon:
            parts.lscpu.setdefault(key.strip(), value.strip())
    else:
        raise TopologyError("this is not a line of `numactl -H` or lscpu")


def _read_node(parts: _Text, node: int, word: str, value: str) -> None:
    if (node, word) in parts.read:
        raise TopologyError(f"{word} of node {node} a second time: one machine was expected")
    parts.read.add((node, word))
    facts = parts.nodes.setdefault(node, NodeFacts(node, size_told=False))
    if word == "cpus":
        facts.cpus = parse_cpulist(",".join(value.replace(",", " ").split()))
        for other in parts.nodes.values():
            twice = set(other.cpus).intersection(facts.cpus)
            # Nodes that numa=fake cuts out of one have all the same cpus.
            if twice and other.cpus != facts.cpus:
                cpus = format_cpulist(twice)
                raise TopologyError(f"cpus {cpus} are those of node {other.id} already")
    elif word == "size":
        facts.memory_bytes = _bytes(value)
        facts.size_told = value != _NOT_TOLD
    else:
        facts.free_bytes = _bytes(value)
        parts.told_free.add(node)


def _bytes(value: str) -> int:
    if value == _NOT_TOLD:
        return 0
    found = re.match(r"^(\d{1,18})\s*(kB|MB|GB)$", value)
    if not found:
        raise TopologyError(f"a size such as '65536 MB' was expected, not {value!r}")
    return int(found[1]) * _UNITS[found[2]]


def _read_row(parts: _Text, node: int, value: str) -> None:
    columns = parts.header or parts.announced or tuple(sorted(parts.nodes))
    words = value.split()
    distances = [number for word in words if (number := whole_number(word)) is not None]
    if not len(distances) == len(columns) == len(words):
        raise TopologyError(f"{len(columns)} distances were expected")
    parts.distances |= {(node, column): it for column, it in zip(columns, distances, strict=True)}


def _describe(parts: _Text) -> Description:
    described = {node: parts.nodes[node] for node in sorted(parts.nodes)}
    for node, facts in described.items():
        if node not in parts.told_free:
            facts.free_bytes = facts.memory_bytes
    description = Description(
        processor=_processor(parts),
        nodes=described,
        distances={
            (a, b): distance
            for (a, b), distance in parts.distances.items()
            if a in described and b in described
        },
        sources=[f"memory and cpus: {parts.name}, the text of numactl -H"],
        notes=list(_notes(parts)),
    )
    if parts.lscpu:
        description.sources.append(f"processor: lscpu, in {parts.name}")
    elif description.processor.name != "unknown":
        description.sources.append(f"processor: a comment in {parts.name}")
    description.threads = place_threads(description, _core_words(parts))
    description.caches = tiles_of_knights(description)
    if not description.caches:
        description.notes.append(
            "numactl tells nothing of caches: each core counts as a tile of its own"
        )
    return description


def _notes(parts: _Text) -> Iterator[str]:
    missing = set(parts.announced).difference(parts.nodes)
    if missing:
        yield (
            f"{len(parts.announced)} nodes are announced, but {format_cpulist(missing)} not "
            "described: they are left out"
        )
    if unsized := [node for node, facts in parts.nodes.items() if not facts.memory_bytes]:
        yield f"no memory is told of node {format_cpulist(unsized)}"
    if unfree := set(parts.nodes).difference(parts.told_free):
        yield (
            f"how much memory is free is not told of node {format_cpulist(unfree)}: all of it "
            "counts as free"
        )
    if len(parts.nodes) > 1 and not parts.distances:
        yield "the text has no node distances: which memory is whose is not told"


def _processor(parts: _Text) -> Processor:
    told = parts.lscpu
    if told:
        return Processor(
            vendor=told.get("Vendor ID", "unknown"),
            family=whole_number(told.get("CPU family")),
            model=whole_number(told.get("Model")),
            name=told.get("Model name") or "unknown",
            flags=tuple(told.get("Flags", "").split()),
        )
    pattern = (
        r"Xeon(?:\(R\))?\s+(?:CPU\s+)?(?:Phi(?:\(TM\))?|Max)(?:\s+(?:CPU\s+)?\d{4}\w?)?"
        r"|Knights (?:Landing|Mill)"
    )
    for comment in parts.comments:
        if found := re.search(pattern, comment, re.IGNORECASE):
            return Processor(name=found[0])
    return Processor()


def _core_words(parts: _Text) -> CoreWords:
    told = parts.lscpu
    if told:
        return CoreWords(
            source="lscpu",
            threads_per_core=whole_number(told.get("Thread(s) per core")),
            packages=whole_number(told.get("Socket(s)")),
            adjacent=told.get("Architecture", "x86_64") not in ("x86_64", "i686"),
        )
    comments = "\n".join(parts.comments)
    threads = re.search(r"\bcores x (\d{1,5}) (?:HT|threads)\b", comments, re.IGNORECASE)
    cores = re.search(r"\b(\d{1,5}) cores/(?:socket|package)\b", comments, re.IGNORECASE)
    return CoreWords(
        source="a comment",
        threads_per_core=int(threads[1]) if threads else None,
        cores_per_package=int(cores[1]) if cores else None,
    )
