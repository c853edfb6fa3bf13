"""The segment: memory that the workers of a node share, with locals, center and progress.

A segment has no name. The process that starts the workers creates it, and they inherit it as an
open file. It vanishes with the last process that has it, however that one ends.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from affinity import MemoryPlan, MemoryPolicyError, collapse, map_shared, place_mapping
from knltrain.communication.shared_memory import anonymous_file, process_identity
from knltrain.communication.shared_memory.anonymous_file import (
    FLOAT_BYTES,
    HUGE_PAGE_BYTES,
    page_bytes_for,
)
from knltrain.errors import SegmentError
from knltrain.exchange.transports.layout import (
    ABORT_WORD,
    HOLDER,
    SCRATCH,
    SEQUENCE,
    STATE_WORDS,
    STEPS_DONE,
    SUMS,
    WORD_BYTES,
    Layout,
)
from knltrain.vectors import FloatArray

_MAGIC = int.from_bytes(b"knltrain", "little")
_LAYOUT_VERSION = 4
_HEADER_WORDS = 8


@final
class Segment:
    """One node's shared memory, mapped into this process.

    All vectors are float32:

    - ``locals_`` (P, n): contiguous rows at whole pages
    - ``spares`` (P, n), or (0, n) if there are none
    - ``center`` (n,), and ``kept`` (C − 1, n), which a rule keeps beside it

    ``words`` are the int64 words of header, states and locks (see ``layout``). Among them are:

    - ``sequences`` (P,): how many barriers each worker has reached
    - ``steps_done`` (P,): how many steps each worker has done
    - ``abort_word`` (1,): the code of why the run is being aborted, 0 if it is not
    """

    def __init__(self, fd: int, layout: Layout) -> None:
        """Map an open file that has ``layout``; `create` and `attach` check that it has."""
        self.fd = fd
        self.layout = layout
        self.size = layout.size
        self.workers = layout.workers
        try:
            memory = map_shared(fd, layout.total_bytes, layout.page_bytes)
        except MemoryPolicyError as error:
            raise SegmentError(f"{error}; {anonymous_file.way_to_more(fd)}") from None
        self._memory = memory
        self._keeps_policy = True
        self.words: npt.NDArray[np.int64] = np.frombuffer(
            memory, np.int64, layout.header_bytes // WORD_BYTES
        )
        states = self.words[layout.state_word(0) : layout.state_word(layout.workers)]
        self.sequences = states[SEQUENCE::STATE_WORDS]
        self.steps_done = states[STEPS_DONE::STATE_WORDS]
        self.abort_word = self.words[ABORT_WORD : ABORT_WORD + 1]
        floats = np.frombuffer(memory, np.float32, offset=layout.header_bytes)
        rows = floats.reshape(-1, layout.row_bytes // FLOAT_BYTES)[:, : layout.size]
        self.locals_: FloatArray = rows[: layout.workers]
        self.spares: FloatArray = rows[layout.workers : layout.center_row]
        self.center: FloatArray = rows[layout.center_row]
        self.kept: FloatArray = rows[layout.center_row + 1 :]

    @classmethod
    def create(
        cls,
        size: int,
        workers: int,
        kind: anonymous_file.FileKind = "shm",
        directory: Path = Path("/dev/shm"),
        center_vectors: int = 1,
        spares: bool = False,
    ) -> Segment:
        """Make a segment for ``workers`` vectors of ``size`` elements, all zero.

        The center has ``center_vectors`` of that size; with ``spares`` each worker has one more.

        - ``shm`` is an unlinked file in ``directory``.
        - ``memfd`` is outside every file system; the size of /dev/shm does not limit it.
        - ``hugetlb`` is a memfd of reserved huge pages.

        Pass ``fd`` to the workers (``pass_fds``). Raises SegmentError if there is no room, before
        anything is written.
        """
        page_bytes = HUGE_PAGE_BYTES if kind == "hugetlb" else page_bytes_for(size)
        layout = Layout(size, workers, page_bytes, center_vectors, spares)
        fd = anonymous_file.create(kind, directory, layout.total_bytes)
        # Only the header: each worker allocates its own pages, to have them near its cores.
        try:
            anonymous_file.reserve(fd, 0, layout.used_header_bytes)
            segment = cls(fd, layout)
        except (SegmentError, OSError):
            os.close(fd)
            raise
        segment._keeps_policy = kind != "hugetlb"
        segment.words[:_HEADER_WORDS] = _header(layout)
        return segment

    @classmethod
    def attach(cls, fd: int, keeps_policy: bool = True) -> Segment:
        """Map the segment behind an inherited file descriptor; raise SegmentError if it is none.

        Without ``keeps_policy``, as for kind ``hugetlb``, `place` does nothing.
        """
        try:
            status = os.fstat(fd)
            regular = stat.S_ISREG(status.st_mode)
            found = os.pread(fd, _HEADER_WORDS * WORD_BYTES, 0) if regular else b""
        except OSError as error:
            raise SegmentError(f"file descriptor {fd} is no segment: {error.strerror}") from None
        header = np.frombuffer(found[: len(found) // WORD_BYTES * WORD_BYTES], np.int64).tolist()
        if len(header) < _HEADER_WORDS or header[0] != _MAGIC:
            raise SegmentError(
                f"file descriptor {fd} is no knltrain segment: expected one that the process that "
                "starts the workers has made and passed on"
            )
        segment = cls(fd, _checked_layout(header, status.st_size))
        segment._keeps_policy = keeps_policy
        return segment

    def place(self, rank: int, memory: MemoryPlan) -> tuple[str, ...]:
        """Set the NUMA nodes of the pages of worker ``rank`` as its placement says.

        These are the pages of its local and its spare, and those of its stripe of the center that
        no other stripe shares. The process that creates the segment calls this before any worker
        claims its rank; it then holds in all processes. It does not for ``hugetlb``, where the
        workers' own memory policies apply. If the placement has arenas, vectors belong to the arena
        "model". Returns remarks on what was not possible; raises SegmentError if a ``strict``
        placement is not possible.
        """
        wanted = memory.arena("model") or memory
        if wanted.mode == "default" or not self._keeps_policy:
            return ()
        parts = [self._memory[begin:end] for begin, end in self._row_bytes(rank)]
        parts += [pages for pages in self._own_stripe_pages(rank) if pages]
        required = memory.policy == "strict"
        try:
            done = [
                place_mapping(part, wanted.mode, wanted.nodes, required=required) for part in parts
            ]
        except MemoryPolicyError as error:
            raise SegmentError(f"the shared memory of worker {rank}: {error}") from None
        return tuple(dict.fromkeys(note for applied in done for note in applied.notes))

    def claim(self, rank: int) -> None:
        """Become worker ``rank``: allocate and touch its pages, publish this process's identity.

        The pages of its local, its spare and its stripe of the center come from the NUMA nodes that
        `place` has set, or else from that of this process. Raises SegmentError if there is no
        memory left, if a living process has this rank, or if the rank is out of range.
        """
        if not 0 <= rank < self.workers:
            raise SegmentError(f"rank {rank}: expected 0 to {self.workers - 1}")
        holder = self.holder(rank)
        if holder and process_identity.is_alive(holder):
            raise SegmentError(
                f"worker {rank} already runs as process {process_identity.process_id(holder)}: "
                "expected one process per rank"
            )
        self._reserve_pages(rank)
        for vectors in (self.locals_, self.spares):
            vectors[rank : rank + 1] = 0
        for part in self._huge_parts(rank):
            collapse(part)
        self.words[self.layout.state_word(rank) + HOLDER] = process_identity.own_identity()

    def holder(self, rank: int) -> int:
        """Return the `process_identity` of the process that claimed a rank; 0 if none."""
        return int(self.words[self.layout.state_word(rank) + HOLDER])

    def sums(self, rank: int) -> npt.NDArray[np.float64]:
        """Return the two sets of eight scratch sums of a worker, shape (2, 8) float64."""
        begin = self.layout.state_word(rank) + SCRATCH
        return self.words[begin : begin + 2 * SUMS].view(np.float64).reshape(2, SUMS)

    def abort(self, code: int) -> None:
        """Abort every worker that waits or checks; the first code is kept.

        ``code`` is the status that the run will end with: 1 if a worker failed, 128 + number if a
        signal stopped it; or ``lost_worker(rank)``.
        """
        if code == 0:
            raise ValueError("abort code 0 means that the run goes on: expected another")
        if self.abort_word[0] == 0:
            self.abort_word[0] = code

    def close(self) -> None:
        """Close the file; the memory is freed with the last view of it."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self._memory = memoryview(b"")
        self.words = self.sequences = self.steps_done = self.abort_word = np.zeros(0, np.int64)
        self.locals_ = self.spares = self.kept = np.zeros((0, 0), np.float32)
        self.center = np.zeros(0, np.float32)

    def _reserve_pages(self, rank: int) -> None:
        for begin, end in (*self._row_bytes(rank), *self._stripe_bytes(rank)):
            if end > begin:
                anonymous_file.reserve(self.fd, begin, end - begin)

    def _row_bytes(self, rank: int) -> list[tuple[int, int]]:
        """Return where a worker's local and its spare begin and end, in bytes."""
        begins = [self.layout.row_offset(row) for row in self.layout.rows_of(rank)]
        return [(begin, begin + self.layout.row_bytes) for begin in begins]

    def _stripe_bytes(self, rank: int) -> list[tuple[int, int]]:
        """Return where a worker's stripe of each center vector begins and ends, in bytes."""
        stripe, found = self.layout.stripe(rank), []
        for vector in range(self.layout.center_vectors):
            center = self.layout.row_offset(self.layout.center_row + vector)
            found.append((center + stripe.start * FLOAT_BYTES, center + stripe.stop * FLOAT_BYTES))
        return found

    def _own_stripe_pages(self, rank: int) -> list[memoryview]:
        """Return the pages of the center that begin in a worker's stripe."""
        return [
            self._memory[slice(*(-(-at // mmap.PAGESIZE) * mmap.PAGESIZE for at in ends))]
            for ends in self._stripe_bytes(rank)
        ]

    def _huge_parts(self, rank: int) -> tuple[memoryview, ...]:
        """Return a worker's rows and the whole huge pages of its stripe, if there are any."""
        unit = self.layout.page_bytes
        if unit == mmap.PAGESIZE or anonymous_file.is_in_huge_pages(self.fd):
            return ()
        # Where two stripes share a huge page, small pages stay near the worker of each.
        ranges = self._row_bytes(rank) + [
            (-(-begin // unit) * unit, end // unit * unit)
            for begin, end in self._stripe_bytes(rank)
        ]
        return tuple(self._memory[start:stop] for start, stop in ranges if start < stop)


def lost_worker(rank: int) -> int:
    """Return the abort code for a worker ``rank`` whose process is gone."""
    return -1 - rank


def _header(layout: Layout) -> list[int]:
    numbers = (layout.workers, layout.size, layout.total_bytes, layout.page_bytes)
    return [_MAGIC, _LAYOUT_VERSION, *numbers, layout.center_vectors, layout.spares]


def _checked_layout(header: list[int], file_bytes: int) -> Layout:
    _, version, workers, size, total_bytes, page_bytes, center_vectors, spares = header
    if version != _LAYOUT_VERSION:
        raise SegmentError(
            f"the segment has layout version {version}, this knltrain expects {_LAYOUT_VERSION}: "
            "start all processes of a run from one installation"
        )
    try:
        layout = Layout(size, workers, page_bytes, center_vectors, bool(spares))
    except ValueError:
        layout = None
    if layout is None or not layout.total_bytes == total_bytes == file_bytes:
        raise SegmentError(
            f"the segment's header says {workers} workers, {size} elements, {total_bytes} bytes, "
            f"but the file has {file_bytes} bytes: it was cut or overwritten; start the run again"
        )
    return layout
