"""The roofline: the least time of a region on this machine, and what binds it.

Williams, Waterman, Patterson 2009: time is at least operations / peak, and bytes / bandwidth.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from vectorized_ops.machine_bounds import Bounds

Bound: TypeAlias = Literal["compute", "memory", "mixed", "latency"]

_ALIKE: Final = 0.9
"""Two terms of which one is at least this share of the other bind together."""

_FAR: Final = 2.0
"""A region that takes so many times its bound is bound by neither, but by calls and latencies..."""

_SHORT_SECONDS: Final = 1e-3
"""... if a call is as short as this; a longer one is just slow."""


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
    terms = flops / bounds.flops_per_second, moved_bytes / bounds.bytes_per_second
    least, most = min(terms), max(terms)
    if not most:
        return None
    if seconds > _FAR * most and seconds < _SHORT_SECONDS * max(calls, 1):
        return Binding("latency", most)
    if least >= _ALIKE * most:
        return Binding("mixed", most)
    return Binding("compute" if terms[0] == most else "memory", most)
