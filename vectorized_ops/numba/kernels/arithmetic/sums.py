"""Sums that a pass carries along: of a value, or of a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from vectorized_ops.numba.emit.lanes import Lanes, Value

Term: TypeAlias = "Value | tuple[Value, Value]"
"""What is added to a sum: a vector, or the two factors of a product."""


def accumulate(lanes: Lanes, sums: Sequence[Value], terms: Sequence[Term]) -> list[Value]:
    """Return the sums with a term added to each; a product is rounded once, with its sum."""
    return [
        lanes.fma(term[0], term[1], total) if isinstance(term, tuple) else lanes.add(total, term)
        for total, term in zip(sums, terms, strict=True)
    ]
