"""Vectors of the contestants, by size, and the shared memory of knltrain's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, final

from knltrain.bench.exchange.contestants import BOX, SEGMENT
from knltrain.bench.exchange.crew import Crew
from knltrain.bench.exchange.sizes import FLOAT_BYTES
from knltrain.communication.memory_box.local import SoftMemoryBox
from knltrain.exchange.transports.segment import Segment

_PAGES_BYTES = 2**16
"""Bytes that rounding to whole pages may add."""


@final
class Vectors:
    """Vectors of `sizes` float32 elements, one after the other in each exchange.

    The files of the shared memory are open from the start, for processes to inherit, but take no
    memory before `held_by` and none after `dropped_by`. They are memfds, which the size of /dev/shm
    does not limit. With a `box`, of one vector, there is a Soft Memory Box, too. Raises
    SegmentError if there is no memory for them.
    """

    def __init__(self, sizes: Sequence[int], workers: int, box: bool = False) -> None:
        self.sizes = list(sizes)
        self.name = f"{len(sizes)} of {sum(sizes)}"
        self._segments: list[Segment] = []
        self._box: SoftMemoryBox | None = None
        with ExitStack() as until_all_are_there:
            for size in sizes:
                self._segments.append(Segment.create(size, workers, "memfd", spares=True))
                until_all_are_there.callback(self._segments[-1].close)
            if box:
                bytes_ = (workers + 1) * (sizes[0] * FLOAT_BYTES + _PAGES_BYTES)
                self._box = SoftMemoryBox.create(bytes_, "memfd")
            until_all_are_there.pop_all()

    @property
    def bytes(self) -> int:
        """Bytes that a worker exchanges."""
        return sum(self.sizes) * FLOAT_BYTES

    @property
    def fds(self) -> list[int]:
        """Descriptors that the processes of our crews inherit."""
        return [each.fd for each in self._segments] + ([self._box.fd] if self._box else [])

    def held_by(self, crews: Sequence[Crew]) -> None:
        """Let all crews hold the vectors; that of the box only if there is one."""
        handles: dict[str, list[Any]] = {SEGMENT: [each.fd for each in self._segments], BOX: []}
        if self._box is not None:
            shared = self._box.create_buffer(self.sizes[0])
            handles[BOX] = [(self._box.fd, shared.key)]
        for crew in self._users(crews):
            crew.hold(self.name, self.sizes, handles.get(crew.name, ()))

    def dropped_by(self, crews: Sequence[Crew]) -> None:
        """Let all crews free the memory, and free it here; the vectors cannot be held again."""
        for crew in self._users(crews):
            crew.drop(self.name)
        self.close()

    def close(self) -> None:
        """Free shared memory that no process maps any more; can be called twice."""
        for segment in self._segments:
            segment.close()
        if self._box is not None:
            self._box.close()

    def _users(self, crews: Sequence[Crew]) -> list[Crew]:
        return [crew for crew in crews if crew.name != BOX or self._box is not None]
