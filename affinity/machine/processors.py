"""Which processor this is, where that decides what its memories are: Xeon Phi and Xeon Max."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

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

ONLY_HBM = {"Instinct MI300A": "HBM3", "EPYC 9V64H": "HBM3", "A64FX": "HBM2"}
"""Processors that have no memory but HBM, by a part of their name."""


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
    if processor.name == "unknown" and processor.model is None:
        return _by_distances(description)
    return Identity("other", processor.name, f"the processor is named {processor.name!r}")


def is_virtual(processor: Processor) -> bool:
    """Whether a hypervisor shows this processor: then it need not show all of the real machine."""
    return "hypervisor" in processor.flags or "QEMU" in processor.name


def only_hbm(processor: Processor) -> str | None:
    """The HBM of a processor that has no other memory, with its name; None for all others."""
    found = (f"{part} has no memory but {hbm}" for part, hbm in ONLY_HBM.items())
    return next((text for text in found if text.split(" has ")[0] in processor.name), None)


def _knights(processor: Processor) -> Identity | None:
    if not _may_be_intel(processor):
        return None
    if name := KNIGHTS_MODELS.get(processor.model or 0):
        return Identity("knights", name, f"model {processor.model} of Intel's family 6 is {name}")
    # Xeon Phi 31xx to 71xx are Knights Corner: cards without MCDRAM.
    if processor.model is None and re.search(r"\bXeon\b.*\bPhi\b.*\b72\d\d", processor.name):
        evidence = f"the processor is named {processor.name!r}"
        return Identity("knights", "Xeon Phi 72xx", evidence)
    return None


def _is_xeon_max(processor: Processor) -> bool:
    named = re.search(r"\bXeon\b.*\bMax\b", processor.name, re.IGNORECASE)
    modelled = processor.model in (XEON_MAX_MODEL, None)
    return bool(named) and modelled and _may_be_intel(processor)


def _may_be_intel(processor: Processor) -> bool:
    return processor.vendor in ("GenuineIntel", "unknown") and processor.family in (6, None)


def _by_distances(description: Description) -> Identity:
    if like_knights(description, KNIGHTS_MCDRAM_BYTES):
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
