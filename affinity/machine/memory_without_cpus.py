"""The kind of memory without cpus of its own: MCDRAM, HBM, CXL, persistent memory, a GPU's ...

Evidence in order of trust:

1. the name that the source gives it;
2. the device behind it;
3. the processor is a Xeon Phi: its memory without cpus is MCDRAM;
4. its bandwidth, relative to the DRAM of the same cpus;
5. the kernel's memory tier;
6. the processor is a Xeon Max;
7. the distances of Xeon Phi's firmware, where no processor is named.

Neither the order of node ids counts nor an absolute bandwidth: sub-NUMA clusters divide that by
their number.
"""

from __future__ import annotations

from dataclasses import replace

from affinity import terms
from affinity.cpulist import format_cpulist
from affinity.machine.description import HBM_RATIO, Description, Kind, NodeFacts, format_ratio
from affinity.machine.locality import Locality, distances_from, locality, nodes_with_cpus
from affinity.machine.processors import KNIGHTS_MCDRAM_BYTES, XEON_MAX_HBM_BYTES, Identity
from affinity.numbers import format_bytes

FASTER_RATIO = 1.5
"""Between this and HBM_RATIO it is if nothing speaks against it.

CXL memory comes that far where it is interleaved over several devices next to one cluster's share
of DRAM; but then it is larger than that DRAM, or the kernel's tier is slower.
"""

MUCH_LARGER = 2
"""Memory with more than so many times the bytes of its cpus' own DRAM, and in a slower tier, is
more likely CXL next to a few modules of DRAM than HBM, however fast it is beside them.

Either alone says nothing: older kernels put all memory behind dax into the slower tier.
"""

SAME_RATIO = 0.1
"""Bandwidths that differ by no more than this part of each other are of the same kind of memory."""

_DEVICES = {
    "pmem": Kind("pmem", "behind it is a device of persistent memory (NVDIMM)"),
    "cxl": Kind("cxl", "behind it is a CXL device"),
}


def kind_without_cpus(
    description: Description, identity: Identity, facts: NodeFacts, near: Locality
) -> Kind:
    """The kind of the memory `facts` is about, by the first evidence that exists.

    "unknown" comes with what is missing and the remedy.
    """
    if facts.told is not None:
        return Kind(facts.told.kind, facts.told.by)
    if not facts.holds_memory:
        return Kind("unknown", "it has neither cpus nor memory")
    kind = _weighed(description, identity, facts, near)
    if facts.size_told:
        return kind
    return replace(kind, evidence=f"{kind.evidence} (its size is not told)")


def _weighed(
    description: Description, identity: Identity, facts: NodeFacts, near: Locality
) -> Kind:
    """What the first evidence says of memory that no source calls anything."""
    if device := _DEVICES.get(facts.dax or ""):
        return device
    if facts.offline_cpus:
        return Kind("dram", f"its cpus {format_cpulist(facts.offline_cpus)} are offline")
    if identity.family == "knights" and not identity.guessed:
        beside_offline = _as_far_as_dram(description, facts)
        return beside_offline or _on_knights(identity, facts) or _unknown(description, facts, near)
    return (
        _by_bandwidth(description, identity, facts, near)
        or _by_tier(description, facts, near)
        or _as_far_as_dram(description, facts)
        or _on_xeon_max(description, identity, facts, near)
        or _on_knights(identity, facts)
        or _unknown(description, facts, near)
    )


def _as_far_as_dram(description: Description, facts: NodeFacts) -> Kind | None:
    """DRAM whose own cpus are all offline: as far from the other nodes as these from each other."""
    owners = nodes_with_cpus(description)
    distances = distances_from(description, facts.id, owners)
    if not description.offline_cpus or not distances:
        return None
    between = {description.distances.get((a, b)) for a in owners for b in owners if a != b}
    # The kernel makes up 20 for all where the firmware gives no distances.
    if not between or between == {20} or not set(distances.values()) <= between:
        return None
    return Kind(
        "dram",
        "as far from the nodes with cpus as these from each other, so its own cpus are among "
        f"those that are offline ({format_cpulist(description.offline_cpus)})",
    )


def _on_knights(identity: Identity, facts: NodeFacts) -> Kind | None:
    if identity.family != "knights" or facts.memory_bytes > KNIGHTS_MCDRAM_BYTES:
        return None
    return Kind("hbm", f"memory without cpus on Xeon Phi is MCDRAM: {identity.evidence}")


def _by_bandwidth(
    description: Description, identity: Identity, facts: NodeFacts, near: Locality
) -> Kind | None:
    """By bandwidth against the DRAM of the nearest cpus; None if either is not given."""
    compared = _bandwidths(description, facts, near)
    if compared is None:
        return None
    own, local = compared
    ratio = own / local
    source = facts.performance_source or "HMAT"
    evidence = (
        f"{source} gives it {format_ratio(ratio)} times the bandwidth of its cpus' own memory "
        f"({own} to {local} MB/s)"
    )
    step, dram_bytes = _tier_step(description, facts, near), _bytes_near(description, near)
    like_cxl = step > 0 and facts.memory_bytes > MUCH_LARGER * dram_bytes
    may_be_max = identity.family == "xeon max" and _has_room_as_hbm(description, facts, near)
    if ratio > HBM_RATIO and (may_be_max or not like_cxl):
        return Kind("hbm", evidence)
    if ratio > 1 and step < 0:
        return Kind("hbm", f"{evidence}, and the kernel puts it in a faster memory tier")
    slow = step > 0 and facts.dax is None
    if ratio > FASTER_RATIO and not slow and 0 < facts.memory_bytes < dram_bytes:
        much = "less than twice" if ratio < HBM_RATIO else "no more than twice"
        return Kind("hbm", f"{evidence}: {much}, but it is the smaller and faster of both")
    if description.offline_cpus and abs(ratio - 1) <= SAME_RATIO:
        return Kind("dram", f"{evidence}: DRAM whose own cpus are offline")
    on_max = None if identity.guessed else _on_xeon_max(description, identity, facts, near)
    if ratio > 1 and on_max:
        return Kind("hbm", f"{on_max.evidence}; {evidence}")
    if ratio < 1 - SAME_RATIO:
        return Kind("unknown", f"{evidence}: slower than DRAM", not_hbm=True)
    doubt = ": too little to call it HBM"
    if ratio > HBM_RATIO:
        sizes = f"{format_bytes(facts.memory_bytes)} beside {format_bytes(dram_bytes)} of DRAM"
        doubt = f", but with {sizes}, and in a slower memory tier, it may be CXL"
    return Kind("unknown", f"{evidence}{doubt}; if it is HBM, say {terms.hbm(facts.id)}")


def _bandwidths(
    description: Description, facts: NodeFacts, near: Locality
) -> tuple[int, int] | None:
    """Bandwidths of the memory and of the DRAM of its nearest cpus, both read or both written."""
    owners = [
        description.nodes[owner] for owner in near.near if description.nodes[owner].memory_bytes
    ]
    for own, local in (
        (facts.read_bandwidth, [owner.read_bandwidth for owner in owners]),
        (facts.write_bandwidth, [owner.write_bandwidth for owner in owners]),
    ):
        if own and any(local):
            return own, max(bandwidth or 0 for bandwidth in local)
    return None


def _bytes_near(description: Description, near: Locality) -> int:
    return max((description.nodes[owner].memory_bytes for owner in near.near), default=0)


def _tier_step(description: Description, facts: NodeFacts, near: Locality) -> int:
    """How many tiers slower the kernel holds it than its cpus' own memory; 0 if it says nothing."""
    tiers = [tier for owner in near.near if (tier := description.nodes[owner].tier) is not None]
    return facts.tier - min(tiers) if tiers and facts.tier is not None else 0


def _by_tier(description: Description, facts: NodeFacts, near: Locality) -> Kind | None:
    """HBM in a faster tier. A slower one tells nothing: the kernel's default for all dax memory."""
    step = _tier_step(description, facts, near)
    if step >= 0:
        return None
    return Kind(
        "hbm",
        f"the kernel puts it in memory tier {facts.tier}, and its cpus' own memory in "
        f"{(facts.tier or 0) - step}: lower is faster",
    )


def _on_xeon_max(
    description: Description, identity: Identity, facts: NodeFacts, near: Locality
) -> Kind | None:
    if identity.family != "xeon max" or not _has_room_as_hbm(description, facts, near):
        return None
    reserved = facts.dax == "soft-reserved"
    if _tier_step(description, facts, near) > 0 and not reserved:
        return None
    which = "set aside by the firmware of a Xeon Max" if reserved else "without cpus on Xeon Max"
    return Kind("hbm", f"memory {which} is HBM: {identity.evidence}")


def _has_room_as_hbm(description: Description, facts: NodeFacts, near: Locality) -> bool:
    """Whether the packages of its cpus have as much HBM, with all such memory no further away."""
    cpus = [cpu for owner in near.near for cpu in description.nodes[owner].cpus]
    packages = {description.threads[cpu].package for cpu in cpus if cpu in description.threads}
    own = _least_distance(description, facts, near)
    beside = sum(
        other.memory_bytes
        for other in description.nodes.values()
        if not other.cpus and other.dax not in _DEVICES and other.told is None
        if not set(near.near).isdisjoint(locality(description, other.id).near)
        if _least_distance(description, other, near) <= own
    )
    return beside <= XEON_MAX_HBM_BYTES * max(len(packages), 1)


def _least_distance(description: Description, facts: NodeFacts, near: Locality) -> int:
    """To the nearest of the nodes with cpus `near`; 0 where it is not told."""
    return min((distances_from(description, facts.id, near.near) or {0: 0}).values(), default=0)


def _unknown(description: Description, facts: NodeFacts, near: Locality) -> Kind:
    return Kind("unknown", _why_unknown(description, facts, near))


def _why_unknown(description: Description, facts: NodeFacts, near: Locality) -> str:
    reasons = ["without cpus"]
    if facts.zero_performance:
        reasons.append("its bandwidths in the firmware's HMAT are zeros, which means not given")
    elif facts.read_bandwidth or facts.write_bandwidth:
        reasons.append("the bandwidth of its cpus' own memory to compare with is not given")
    else:
        reasons.append("no bandwidth is given")
    if facts.tier is not None:
        slower = _tier_step(description, facts, near) > 0
        reasons.append(f"its memory tier is {'slower than ' if slower else ''}that of DRAM")
    if facts.dax == "soft-reserved":
        reasons.append("the firmware sets it aside (HBM or CXL)")
    if description.offline_cpus:
        reasons.append("it may be DRAM whose cpus are offline")
    return f"{', '.join(reasons)}: if it is HBM, say {terms.hbm(facts.id)}"
