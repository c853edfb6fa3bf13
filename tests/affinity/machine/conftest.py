"""Descriptions of machines, made up for a test: as hwloc writes them, and as facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.sax.saxutils import quoteattr

import pytest

from affinity.machine.description import Description, NodeFacts, Processor, ThreadPlace


class HwlocWriter:
    """Writes hwloc's XML: each method returns the text of one object with all that is in it."""

    def object(
        self,
        kind: str,
        *inside: str,
        cpus: Iterable[int] | None = None,
        infos: Mapping[str, str] | None = None,
        **attributes: object,
    ) -> str:
        """An ``<object>`` of this type with its set of cpus and what it holds."""
        if cpus is not None:
            attributes = {"cpuset": self.set(cpus), "complete_cpuset": self.set(cpus), **attributes}
        named = "".join(f" {name}={quoteattr(str(value))}" for name, value in attributes.items())
        told = "".join(self.info(name, value) for name, value in (infos or {}).items())
        return f'<object type="{kind}"{named}>{told}{"".join(inside)}</object>\n'

    def info(self, name: str, value: str) -> str:
        """An ``<info>`` about whatever it stands in."""
        return f"<info name={quoteattr(name)} value={quoteattr(value)}/>"

    def core(self, number: int, *cpus: int) -> str:
        """A core with its hardware threads."""
        threads = (self.object("PU", os_index=cpu, cpus=[cpu]) for cpu in cpus)
        return self.object("Core", *threads, os_index=number, cpus=cpus)

    def node(
        self,
        number: int,
        cpus: Iterable[int],
        infos: Mapping[str, str] | None = None,
        **attributes: object,
    ) -> str:
        """A NUMA node of 1 GiB near to these cpus; hwloc's own number for it is 100 more."""
        given = {"gp_index": 100 + number, "local_memory": 1 << 30, **attributes}
        return self.object("NUMANode", os_index=number, cpus=cpus, infos=infos, **given)

    def topology(self, *inside: str, after: str = "", version: str = "2.0", **machine: str) -> str:
        """The whole file: a machine that holds `inside`, and what stands `after` it."""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
            f'<topology version="{version}">\n'
            f"{self.object('Machine', *inside, os_index=0, **machine)}{after}</topology>\n"
        )

    def distances(self, ids: Iterable[int], *rows: Iterable[int], name: str | None = None) -> str:
        """The firmware's distances, in the order of `ids`."""
        named = f' name="{name}"' if name else ""
        indexes = " ".join(map(str, ids))
        values = "".join(
            f"<u64values length='0'>{' '.join(map(str, row))} </u64values>" for row in rows
        )
        return (
            f'<distances2 type="NUMANode" nbobjs="{len(rows)}" kind="5"{named} indexing="os">'
            f"<indexes length='0'>{indexes} </indexes>{values}</distances2>\n"
        )

    def memattr(self, name: str, values: Mapping[int, tuple[int, Iterable[int]]]) -> str:
        """An attribute of nodes: ``{node: (value, cpus that see it so)}``."""
        lines = (
            f'<memattr_value target_obj_type="NUMANode" target_obj_gp_index="{100 + node}" '
            f'value="{value}" initiator_cpuset="{self.set(cpus)}"/>'
            for node, (value, cpus) in values.items()
        )
        return f'<memattr name="{name}" flags="5">{"".join(lines)}</memattr>\n'

    def set(self, cpus: Iterable[int]) -> str:
        """A set of cpus or nodes in words of 32 bits, the highest first."""
        bits = sum(1 << cpu for cpu in set(cpus))
        words = range(max(bits.bit_length() - 1, 0) // 32, -1, -1)
        return ",".join(f"0x{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in words)


@pytest.fixture
def hwloc() -> HwlocWriter:
    """A writer of hwloc's XML."""
    return HwlocWriter()


PROCESSORS = {
    "phi": Processor("GenuineIntel", 6, 87, "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz"),
    "max": Processor("GenuineIntel", 6, 143, "Intel(R) Xeon(R) CPU Max 9480"),
    "xeon": Processor("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+"),
    "epyc": Processor("AuthenticAMD", 25, 17, "AMD EPYC 9654 96-Core Processor"),
    "": Processor(),
}


def _describe(
    own: Mapping[int, float],
    away: Mapping[int, float] | None = None,
    *,
    processor: str | Processor = "xeon",
    rows: Sequence[Sequence[int]] = (),
    packages: int = 1,
    cores: int = 2,
) -> Description:
    nodes, cpus = {}, iter(range(len(own) * cores))
    threads = {}
    for place, (node, gib) in enumerate(own.items()):
        mine = tuple(next(cpus) for _ in range(cores))
        nodes[node] = NodeFacts(node, mine, int(gib * 2**30), int(gib * 2**30))
        threads |= {cpu: ThreadPlace(place * packages // len(own), cpu) for cpu in mine}
    for node, gib in (away or {}).items():
        nodes[node] = NodeFacts(node, (), int(gib * 2**30), int(gib * 2**30))
    ids = sorted(nodes)
    return Description(
        processor=PROCESSORS[processor] if isinstance(processor, str) else processor,
        threads=threads,
        nodes={node: nodes[node] for node in ids},
        distances={
            (a, b): distance
            for a, row in zip(ids, rows, strict=bool(rows))
            for b, distance in zip(ids, row, strict=True)
        },
    )


@pytest.fixture
def describe() -> Callable[..., Description]:
    """Makes a Description with 2 cores of one thread at each node of ``own = {node: GiB}``.

    `away` are the memories without cpus, `rows` the distances in the order of all ids; `processor`
    is "phi", "max", "xeon", "epyc", "" (not named) or a `Processor`. Tests add further facts.
    """
    return _describe
