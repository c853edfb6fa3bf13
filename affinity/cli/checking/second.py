"""Compares this machine's topology with that of hwloc."""

from __future__ import annotations

from collections.abc import Iterator

from affinity.cli.checking.finding import Finding
from affinity.errors import TopologyError
from affinity.machine.cross_check import compare, lstopo_topology
from affinity.topology import Topology

_SUBJECT = "hwloc"


def second_opinion_findings(topology: Topology) -> Iterator[Finding]:
    """Differences to hwloc's view of this machine, if hwloc is installed."""
    try:
        theirs = lstopo_topology()
    except TopologyError as error:
        yield Finding("note", _SUBJECT, str(error))
        return
    if theirs is None:
        yield Finding("note", _SUBJECT, "lstopo is not installed: no second opinion")
        return
    differences = compare(topology, theirs)
    for difference in differences:
        text = f"{difference.fact}: we say {difference.ours}, hwloc says {difference.theirs}"
        yield Finding("warn", _SUBJECT, text, "tell us: python -m affinity snapshot machine.tgz")
    if not differences:
        text = f"sees the same cpus, cores, caches and memories ({'; '.join(theirs.sources)})"
        yield Finding("ok", _SUBJECT, text)
