"""Stages by kind of operation: the view of H. Kim's thesis that needs no network to compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def by_kind(profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All stages of a kind together; `efficiency` is the least time of all by the actual one."""
    found, step = [], profile["step_seconds"]["mean"]
    for kind in dict.fromkeys(each["class"] for each in profile["stages"]):
        own = [each for each in profile["stages"] if each["class"] == kind]
        seconds = sum(each["seconds"]["mean"] for each in own)
        if not seconds:
            continue
        flops = sum(each["flops"] for each in own)
        moved = sum(each["compulsory_bytes"] for each in own)
        least = sum(each["bound_seconds"] or 0.0 for each in own)
        found.append(
            {
                "operation": kind,
                "seconds": seconds,
                "share": seconds / step,
                "gflops": flops / seconds / 1e9 if flops else None,
                "gbytes_per_second": moved / seconds / 1e9 if moved else None,
                "arithmetic_intensity": flops / moved if moved else None,
                "efficiency": least / seconds if least else None,
            }
        )
    return found
