"""Recognises processors whose model decides the kind of their memory: Xeon Phi and Xeon Max."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from affinity.machine.description import Description, Processor
from affinity.machine.distance_tables import like_knights, like_xeon_max

Family: TypeAlias = Literal["knights", "xeon max", "other"]

KNIGHTS_MODELS = {87: "Knights Landing", 133: "Knights Mill"}
"""Models of Intel's family 6 with MCDRAM on the package; their firmware has no HMAT table."""

KNIGHTS_MCDRAM_BYTES = 16 << 30
"""MCDRAM of every Knights Landing and Knights Mill; their firmware tells less (hwloc issue 264)."""

KNIGHTS_CORES = 72
"""No Xeon Phi has more cores."""

XEON_MAX_MODEL = 143
"""Sapphire Rapids, with HBM or without: only the name differs."""

XEON_MAX_HBM_BYTES = 64 << 30
"""HBM on the package of every Xeon Max."""

OPTANE_MODELS = (85, 106, 143)
"""Models of Intel's family 6 that take Optane memory: Cascade and Cooper Lake, Ice Lake, Sapphire.

Later ones do not; a memory-side cache of theirs may be DRAM in front of CXL memory.
"""

Vendor: TypeAlias = Literal["intel", "amd", "other", "unknown"]

_VENDORS: dict[str, Vendor] = {
    "GenuineIntel": "intel",
    "AuthenticAMD": "amd",
    "HygonGenuine": "amd",  # AMD's design, with the same modes.
    "unknown": "unknown",
}


class HbmOnlyProcessors(NamedTuple):
    """Processors that have no memory but HBM: by their numbers, or a part of their name."""

    called: str
    hbm: str
    vendor: str
    family: int | None
    models: range
    names: tuple[str, ...]


ONLY_HBM = (
    # All of these models have HBM3 alone: Linux's drivers/edac/amd64_edac.c.
    HbmOnlyProcessors(
        *("AMD Instinct MI300", "HBM3", "AuthenticAMD", 25, range(0x90, 0xA0)),
        names=("Instinct MI300A", "EPYC 9V64H"),
    ),
    # Arm names processors by implementer (0x46: Fujitsu) and part.
    HbmOnlyProcessors("Fujitsu A64FX", "HBM2", "0x46", None, range(0x001, 0x002), names=("A64FX",)),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The processor's family and what tells it.

    `guessed` if that is only the firmware's table of distances, which no other machine is known to
    have: weak evidence, for sources that name no processor.
    """

    family: Family
    name: str
    evidence: str
    guessed: bool = False


def identify(description: Description) -> Identity:
    """Which processor `description` is of, with the evidence."""
    processor = description.processor
    if knights := _knights(processor):
        return knights
    if description.knights is not None and processor.model is None:
        return Identity("knights", "Xeon Phi", f"{description.knights.source} is of a Xeon Phi")
    if _is_xeon_max(processor):
        return Identity("xeon max", "Xeon Max", f"the processor is named {processor.name!r}")
    if processor.name == "unknown" and processor.model in (XEON_MAX_MODEL, None):
        return _by_distances(description)
    return Identity("other", processor.name, f"the processor is named {processor.name!r}")


def arm_part(text: str) -> int | None:
    """Arm's number of a part, written as in ``0xd4f``; None if it is something else."""
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text) else None


def vendor_of(processor: Processor) -> Vendor:
    """Who designed it: as the source says, or by its name where it does not."""
    told = _VENDORS.get(processor.vendor, "other")
    if told != "unknown":
        return told
    if re.search(r"\b(Intel|Xeon)\b", processor.name):
        return "intel"
    return "amd" if re.search(r"\b(AMD|EPYC|Hygon)\b", processor.name) else "unknown"


def takes_optane(processor: Processor) -> bool:
    """Whether a memory-side cache of this machine can only be DRAM before persistent memory.

    Of a Sapphire Rapids only the name tells that it has no HBM, so it has to be told.
    """
    if vendor_of(processor) != "intel" or is_virtual(processor) or _is_xeon_max(processor):
        return False
    if processor.model is None:
        return "Xeon" in processor.name
    named = processor.model != XEON_MAX_MODEL or processor.name != "unknown"
    return processor.model in OPTANE_MODELS and named


def is_virtual(processor: Processor) -> bool:
    """Whether a hypervisor shows this processor: then it need not show all of the real machine."""
    return "hypervisor" in processor.flags or "QEMU" in processor.name


def only_hbm(processor: Processor) -> HbmOnlyProcessors | None:
    """What is known of a processor that has no memory but HBM; None for all others."""
    for known in ONLY_HBM:
        numbered = processor.vendor == known.vendor and processor.family == known.family
        if numbered and processor.model in known.models:
            return known
        if any(name in processor.name for name in known.names):
            return known
    return None


def _knights(processor: Processor) -> Identity | None:
    if not _may_be_intel(processor):
        return None
    if name := KNIGHTS_MODELS.get(processor.model or 0):
        return Identity("knights", name, f"model {processor.model} of Intel's family 6 is {name}")
    # Xeon Phi 31xx to 71xx are Knights Corner: cards without MCDRAM.
    pattern = r"\bXeon\b.*\bPhi\b.*\b72\d\d|\bKnights (Landing|Mill)\b"
    if processor.model is None and re.search(pattern, processor.name):
        evidence = f"the processor is named {processor.name!r}"
        return Identity("knights", "Xeon Phi 72xx", evidence)
    return None


def _is_xeon_max(processor: Processor) -> bool:
    named = re.search(r"\bXeon\b.*\bMax\b", processor.name, re.IGNORECASE)
    modelled = processor.model in (XEON_MAX_MODEL, None)
    return bool(named) and modelled and _may_be_intel(processor)


def _may_be_intel(processor: Processor) -> bool:
    return vendor_of(processor) in ("intel", "unknown") and processor.family in (6, None)


def _by_distances(description: Description) -> Identity:
    if like_knights(description, KNIGHTS_MCDRAM_BYTES) and description.processor.model is None:
        return Identity(
            *("knights", "Xeon Phi"),
            "no processor is named, but the distances (31 from each memory without cpus to one "
            "node with cpus, 41 to all others) are those of Xeon Phi's firmware",
            guessed=True,
        )
    if like_xeon_max(description, XEON_MAX_HBM_BYTES):
        return Identity(
            *("xeon max", "Xeon Max"),
            "no processor is named, but the distances (13 from each memory without cpus to one "
            "node with cpus, 23 to those of other packages) are those of Xeon Max's firmware",
            guessed=True,
        )
    return Identity("other", "unknown", "no processor is named")
