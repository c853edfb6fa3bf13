"""A worker's way into the segments that the process which starts the workers has made."""

from __future__ import annotations

from collections.abc import Sequence

from knltrain.exchange.grouped import GroupedTeam
from knltrain.exchange.node_shared import NodeShared
from knltrain.exchange.segment import Segment
from knltrain.exchange.transport import Team


def join(fds: Sequence[int], rank: int, timeout_seconds: float) -> Team:
    """Become worker ``rank`` of the segments behind the files that ``NodeMemory.fds_of`` names.

    The team closes them. Raises SegmentError as ``Segment.attach`` and ``Segment.claim`` do.
    """
    segments: list[Segment] = []
    try:
        for fd in fds:
            segments.append(Segment.attach(fd))
        if len(segments) == 1:
            return NodeShared(segments[0], rank, timeout_seconds)
        return _in_group(segments[0], segments[1], rank, timeout_seconds)
    except BaseException:
        for segment in segments:
            segment.close()
        raise


def _in_group(mine: Segment, roots: Segment, rank: int, timeout_seconds: float) -> GroupedTeam:
    size, groups, center = mine.workers, roots.workers, roots.center
    group, inside_rank = divmod(rank, size)
    of_group = range(group * size, (group + 1) * size)
    inside = NodeShared(mine, inside_rank, timeout_seconds, of_group)
    if inside_rank == 0:
        outside = NodeShared(roots, group, timeout_seconds, range(0, groups * size, size))
        return GroupedTeam(group, groups, inside, outside, center)
    roots.close()  # the center stays mapped for as long as somebody holds it
    return GroupedTeam(group, groups, inside, None, center)
