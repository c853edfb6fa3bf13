"""The kind of memory that has cpus of its own: DRAM, unless the processor may have only HBM."""

from __future__ import annotations

from affinity.cpulist import format_cpulist
from affinity.machine.description import HBM_RATIO, Description, Kind, NodeFacts, format_ratio
from affinity.machine.processors import (
    XEON_MAX_HBM_BYTES,
    Identity,
    is_virtual,
    only_hbm,
    takes_optane,
)
from affinity.numbers import format_bytes


def kind_beside_cpus(
    description: Description, identity: Identity, facts: NodeFacts, has_hbm: bool
) -> Kind:
    """The kind of the memory `facts` is about; `has_hbm` if other memory of the machine is HBM."""
    if facts.told is not None:
        return Kind(facts.told.kind, facts.told.by)
    if not facts.memory_bytes:
        return Kind("unknown", "it has no memory, or none that is told")
    if faster := _faster_than_dram(description, facts):
        return Kind("hbm", faster)
    if known := only_hbm(description.processor):
        return Kind("hbm", f"{known.called} has no memory but {known.hbm}")
    if facts.side_caches and identity.family == "other":
        return Kind("dram", _behind_side_cache(description))
    if identity.family == "xeon max" and not has_hbm:
        return _kind_on_xeon_max(description)
    return Kind("dram", "next to cpus, and nothing says that it is not DRAM")


def _faster_than_dram(description: Description, facts: NodeFacts) -> str | None:
    """Evidence that memory set aside by the firmware is HBM although it has cpus of its own.

    It is compared with the memory of other cpus. Both facts are needed: DRAM is set aside, too, and
    a node with few modules has a fraction of the bandwidth of others.
    """
    if facts.dax != "soft-reserved":
        return None
    others = [
        other
        for other in description.nodes.values()
        if other.cpus and other.memory_bytes and other.dax is None and other.told is None
    ]
    for own, theirs in (
        (facts.read_bandwidth, [other.read_bandwidth or 0 for other in others]),
        (facts.write_bandwidth, [other.write_bandwidth or 0 for other in others]),
    ):
        dram = max(theirs, default=0)
        if own and dram and own > HBM_RATIO * dram:
            return (
                f"set aside by the firmware, and {facts.performance_source or 'HMAT'} gives it "
                f"{format_ratio(own / dram)} times the bandwidth of the DRAM next to other cpus "
                f"({own} to {dram} MB/s)"
            )
    return None


def _behind_side_cache(description: Description) -> str:
    if takes_optane(description.processor):
        return (
            "next to cpus, behind a memory-side cache: on a Xeon without HBM that is persistent "
            "memory cached by DRAM (Optane's Memory Mode), which is used like DRAM"
        )
    return "next to cpus, behind a memory-side cache; nothing says that it is not DRAM"


def _kind_on_xeon_max(description: Description) -> Kind:
    """Memory next to the cpus of a Xeon Max that shows no HBM apart: DRAM, or all there is."""
    hbm_installed = any(name.startswith("HBM") for name in description.installed)
    if description.installed and not hbm_installed:
        return Kind("dram", f"SMBIOS lists only {', '.join(description.installed)}")
    if hbm_installed and len(description.installed) == 1:
        return Kind("hbm", "SMBIOS lists no memory but HBM")
    if hbm_installed:
        return Kind("dram", f"next to cpus, and SMBIOS lists {' and '.join(description.installed)}")
    if offline := offline_hbm(description):
        return Kind("dram", f"next to cpus, and HBM is elsewhere: {offline}")
    if any(facts.side_caches for facts in description.nodes.values()):
        return Kind("dram", "next to cpus, and HBM is its memory-side cache")
    nodes = description.nodes.values()
    if unsized := [facts.id for facts in nodes if facts.cpus and not facts.size_told]:
        which = format_cpulist(unsized)
        return Kind("unknown", f"next to cpus of a Xeon Max, and the size of node {which} not told")
    largest = max(_bytes_of_packages(description).values(), default=0)
    here, all_hbm = format_bytes(largest), format_bytes(XEON_MAX_HBM_BYTES)
    if largest > XEON_MAX_HBM_BYTES:
        return Kind("dram", f"next to cpus, and {here} per package are more than {all_hbm} of HBM")
    doubt = ", unless the hypervisor hides some of it" if is_virtual(description.processor) else ""
    apart = any(facts.holds_memory and not facts.cpus for facts in nodes)
    other, where = ("HBM", "next to its cpus") if apart else ("memory", "there is")
    return Kind(
        "hbm",
        f"a Xeon Max with {here} per package, no more than the {all_hbm} of its HBM, no other "
        f"{other} and no memory-side cache: HBM is all {where}{doubt}",
    )


def offline_hbm(description: Description) -> str | None:
    """What the source notes of HBM that the system does not use, if it does."""
    return next((note for note in description.notes if "soft-reserved" in note), None)


def _bytes_of_packages(description: Description) -> dict[int, int]:
    """Bytes of the memories next to cpus, by package; a node over several counts for the first."""
    sizes: dict[int, int] = {}
    for facts in description.nodes.values():
        places = (description.threads[cpu] for cpu in facts.cpus if cpu in description.threads)
        if packages := {place.package for place in places}:
            sizes[min(packages)] = sizes.get(min(packages), 0) + facts.memory_bytes // len(packages)
    return sizes
