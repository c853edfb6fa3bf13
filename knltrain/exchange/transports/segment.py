"""The memory that the workers of a node share: their locals, the center, and who has come how far.

A segment has no name. It is created by the process that starts the workers, which inherit it as
an open file, and it vanishes with the last process that holds it, whatever way that one ended.
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
from knltrain.communication.shared_memory.pages import FLOAT_BYTES, HUGE_PAGE_BYTES, page_bytes_for
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

    ``locals_`` has shape (P, n) with contiguous rows at whole pages, ``spares`` the same or, if
    there are none, (0, n), ``center`` (n,), ``kept`` (C − 1, n) what a rule keeps beside the
    center, all float32. ``words`` are the int64 words of
    header, states and locks (see ``layout``), ``sequences`` (P,) those of them that say how many
    barriers a worker has reached, ``steps_done`` (P,) how many steps it has done, ``abort_word``
    (1,) why the run is being aborted, 0 if it is not.
    """

    def __init__(self, fd: int, layout: Layout) -> None:
        """Map an open file that has ``layout``: ``create`` and ``attach`` make sure that it has."""
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

        The center takes ``center_vectors`` of that size, and with ``spares`` each worker another.

        ``shm`` is a file without a name in ``directory``, ``memfd`` one outside every file system,
        which the size of /dev/shm does not limit, ``hugetlb`` such a one made of huge pages that
        were set aside. Hand ``fd`` to the workers (``pass_fds``).
        Raises SegmentError if there is no room, before anything is written.
        """
        page_bytes = HUGE_PAGE_BYTES if kind == "hugetlb" else page_bytes_for(size)
        layout = Layout(size, workers, page_bytes, center_vectors, spares)
        fd = anonymous_file.create(kind, directory, layout.total_bytes)
        # Only the header: each worker reserves its own pages, to have them near its cores.
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

        ``keeps_policy`` says whether ``place`` can do anything: not for kind ``hugetlb``.
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
        """Have the pages of worker ``rank`` come from the memory that its placement names.

        Those are the pages of its local and its spare, and of its stripe of the center where that
        has pages of its own. Done by the process that creates the segment, before any worker claims
        its rank, it holds in all processes; for ``hugetlb``, where it would not, the workers' own
        policies hold. Vectors are part of the arena "model", where the placement has arenas.
        Returns what could not be had as asked; raises SegmentError if a ``strict`` place cannot be
        had.
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
        """Become worker ``rank``: reserve and touch its pages from here, note who this process is.

        The pages of its local, its spare and its stripe of the center come from where ``place``
        said, or else from the NUMA node that this process runs on. Raises SegmentError if there is
        no memory left, if a living process has this rank, or if there is no such rank.
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
        """Tell every worker that waits or checks to give up; the first code stands.

        ``code`` is the status that the run will end with: 1 if a worker failed, 128 + number if a
        signal stopped it; or ``lost_worker(rank)``.
        """
        if code == 0:
            raise ValueError("abort code 0 means that the run goes on: expected another")
        if self.abort_word[0] == 0:
            self.abort_word[0] = code

    def close(self) -> None:
        """Close the file; the memory goes when the last view of it does."""
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
        """Where a worker's local and its spare begin and end, in bytes."""
        begins = [self.layout.row_offset(row) for row in self.layout.rows_of(rank)]
        return [(begin, begin + self.layout.row_bytes) for begin in begins]

    def _stripe_bytes(self, rank: int) -> list[tuple[int, int]]:
        """Where a worker's stripe of each vector of the center begins and ends, in bytes."""
        stripe, found = self.layout.stripe(rank), []
        for vector in range(self.layout.center_vectors):
            center = self.layout.row_offset(self.layout.center_row + vector)
            found.append((center + stripe.start * FLOAT_BYTES, center + stripe.stop * FLOAT_BYTES))
        return found

    def _own_stripe_pages(self, rank: int) -> list[memoryview]:
        """The pages of the center that begin in a worker's stripe; empty where it has none."""
        return [
            self._memory[slice(*(-(-at // mmap.PAGESIZE) * mmap.PAGESIZE for at in ends))]
            for ends in self._stripe_bytes(rank)
        ]

    def _huge_parts(self, rank: int) -> tuple[memoryview, ...]:
        """A worker's rows and the whole huge pages of its stripe, if vectors begin at such."""
        unit = self.layout.page_bytes
        if unit == mmap.PAGESIZE or anonymous_file.is_in_huge_pages(self.fd):
            return ()
        # A huge page that two stripes share stays in small ones, each near its own worker.
        ranges = self._row_bytes(rank) + [
            (-(-begin // unit) * unit, end // unit * unit)
            for begin, end in self._stripe_bytes(rank)
        ]
        return tuple(self._memory[start:stop] for start, stop in ranges if start < stop)


def lost_worker(rank: int) -> int:
    """Abort code that says that the process of worker ``rank`` is gone."""
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
