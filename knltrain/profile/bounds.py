"""The roofline: the least time of a region on this machine, and what binds it.

Williams, Waterman, Patterson 2009: time is at least operations / peak, and bytes / bandwidth. Of an
exchange it is at least the bytes that a node sends / the bandwidth of its link.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from vectorized_ops.machine_bounds import Bounds

Term: TypeAlias = Literal["compute", "memory", "network"]
Bound: TypeAlias = Literal[Term, "mixed", "latency"]

_ALIKE: Final = 0.9
"""Two terms of which one is at least this share of the other bind together."""

_FAR: Final = 2.0
"""A region that takes so many times its bound is bound by neither, but by calls and latencies..."""

_SHORT_SECONDS: Final = 1e-3
"""... if a call is as short as this; a longer one is just slow."""


class Ceilings(NamedTuple):
    """What a worker's machine does at best, each per second, while all workers do the same."""

    flops_per_second: float
    """Operations of a matrix product in float32."""
    product_flops_per_second: float
    """Operations of one in the precision of the run."""
    bytes_per_second: float
    """Bytes of a copy, read and written."""
    link_bytes_per_second: float
    """Bytes that a node sends to others; 0 on one node."""

    @property
    def bounds(self) -> Bounds:
        """Those of what is computed."""
        return Bounds(self.product_flops_per_second, self.bytes_per_second)


class Binding(NamedTuple):
    """What binds a region, and its least time in seconds."""

    bound: Bound
    seconds: float


def binding(
    flops: float, moved_bytes: float, bounds: Bounds, seconds: float, calls: float = 1
) -> Binding | None:
    """What binds a region that takes `seconds` in so many calls; None where it does nothing.

    Operations and bytes are those that are executed and moved, not those of a definition.
    """
    compute, memory = flops / bounds.flops_per_second, moved_bytes / bounds.bytes_per_second
    return _binding({"compute": compute, "memory": memory}, seconds, calls)


def exchange_binding(
    segment_bytes: float | None, sent_bytes: float | None, ceilings: Ceilings, seconds: float
) -> Binding | None:
    """What binds an exchange; None where nothing is exchanged, or the bytes are not known.

    A worker moves `segment_bytes` over its node's segment at the rate of a copy. Its node sends
    `sent_bytes` at the rate of its link.
    """
    terms: dict[Term, float] = {}
    if segment_bytes:
        terms["memory"] = segment_bytes / ceilings.bytes_per_second
    if sent_bytes and ceilings.link_bytes_per_second:
        terms["network"] = sent_bytes / ceilings.link_bytes_per_second
    return _binding(terms, seconds, 1)


def _binding(terms: Mapping[Term, float], seconds: float, calls: float) -> Binding | None:
    if not any(terms.values()):
        return None
    *others, (name, most) = sorted(terms.items(), key=lambda each: each[1])
    if seconds > _FAR * most and seconds < _SHORT_SECONDS * max(calls, 1):
        return Binding("latency", most)
    if others and others[-1][1] >= _ALIKE * most:
        return Binding("mixed", most)
    return Binding(name, most)
