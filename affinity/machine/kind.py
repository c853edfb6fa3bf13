"""The kind of a memory, with the evidence for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from affinity.topology import MemoryKind

HBM_RATIO = 2.0
"""Memory with more than this many times the bandwidth of DRAM is HBM."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a memory, and the evidence; `not_hbm` if only that is known."""

    kind: MemoryKind
    evidence: str
    not_hbm: bool = False


def format_ratio(ratio: float) -> str:
    """Write a ratio with one digit, which is not rounded up to `HBM_RATIO`: 1.96 is 1.9 times."""
    rounded = round(ratio, 1)
    return f"{math.floor(ratio * 10) / 10 if ratio < HBM_RATIO <= rounded else rounded:.1f}"
