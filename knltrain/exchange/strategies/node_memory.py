"""All segments that the workers of a run share on a node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import final

from affinity import Placement
from knltrain.communication.shared_memory.anonymous_file import FileKind
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.transports.segment import Segment


@final
class NodeMemory:
    """The segments of a node's ``workers``: one, or one for each group and one for the roots.

    The first ones are those of the groups; the last one holds the method's center. Each of
    ``nodes`` nodes has as many workers. On several nodes, with groups, those of a node are one
    group. Raises SegmentError if there is no room.
    """

    def __init__(
        self,
        size: int,
        workers: int,
        method: Method,
        kind: FileKind = "shm",
        nodes: int = 1,
    ) -> None:
        self._group_size = method.group_size
        self._segments: list[Segment] = []
        try:
            for need in method.strategy.segments(method, workers, nodes):
                segment = Segment.create(
                    size,
                    need.workers,
                    kind,
                    center_vectors=need.center_vectors,
                    spares=need.spares,
                )
                self._segments.append(segment)
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, fds: Sequence[int], method: Method, kind: FileKind = "shm") -> NodeMemory:
        """Map another process's segments by their files; SegmentError if one is none."""
        memory = cls.__new__(cls)
        memory._group_size = method.group_size
        memory._segments = []
        try:
            for fd in fds:
                memory._segments.append(Segment.attach(fd, keeps_policy=kind != "hugetlb"))
        except BaseException:
            memory.close()
            for fd in fds[len(memory._segments) :]:
                os.close(fd)
            raise
        return memory

    @staticmethod
    def segments_for(method: Method, workers: int) -> int:
        """Return how many segments a node with ``workers`` has."""
        return len(method.strategy.segments(method, workers, nodes=1))

    @property
    def all_fds(self) -> tuple[int, ...]:
        """The file descriptors of all segments."""
        return tuple(segment.fd for segment in self._segments)

    def fds_of(self, rank: int) -> tuple[int, ...]:
        """Return the file descriptors for worker ``rank``: its group's, if any, the center's."""
        return tuple(segment.fd for segment in self._segments_of(rank))

    def place(self, placements: Sequence[Placement]) -> tuple[str, ...]:
        """Set the NUMA nodes of every worker's pages as its placement says.

        Returns remarks on what was not possible; raises SegmentError as `Segment.place` does.
        """
        notes: list[str] = []
        for place in placements:
            *groups, center = self._segments_of(place.rank)
            for segment in groups:
                notes += segment.place(place.rank % self._group_size, place.memory)
            if not groups:
                notes += center.place(place.rank, place.memory)
            elif place.rank % self._group_size == 0:
                notes += center.place(place.rank // self._group_size, place.memory)
        return tuple(dict.fromkeys(notes))

    def abort(self, code: int) -> None:
        """Abort every worker, see `Segment.abort`."""
        for segment in self._segments:
            segment.abort(code)

    def close(self) -> None:
        """Close all files."""
        for segment in self._segments:
            segment.close()

    def _segments_of(self, rank: int) -> list[Segment]:
        own = [self._segments[rank // self._group_size]] if self._group_size else []
        return [*own, self._segments[-1]]
