"""A memory's kind with the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass

from affinity.topology import MemoryKind


@dataclass(frozen=True, slots=True)
class Kind:
    """What a memory is, and the evidence; `not_hbm` if no more than that is told."""

    kind: MemoryKind
    evidence: str
    not_hbm: bool = False
