"""Writes pictures, labels and index of a packed data set, made by several threads."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128_hexdigest

from knltrain.data.packed_format import (
    BLOCK,
    PAGE,
    BlockSums,
    PackedHalf,
    PackedHeader,
    Section,
    aligned,
    written_header,
)
from knltrain.data.packed_records import Record, Records
from knltrain.data.packing_journal import Journal
from knltrain.data.packing_work import PackingWork
from knltrain.data.source import SKIPPED

_AT_A_TIME: Final = 16
"""Pictures that a thread makes before it takes others."""
_NOTED_SECONDS: Final = 5.0
"""After so much time what was written is noted in the journal."""


@final
class Writer:
    """Writes all of a partial file that a journal does not tell of."""

    def __init__(self, work: PackingWork, descriptor: int, journal: Journal) -> None:
        self._work, self._descriptor, self._journal = work, descriptor, journal
        self._sums = BlockSums(), BlockSums()
        self._new: list[int] = []
        self._place = 0
        self._noted, self._noted_at = 0, time.monotonic()

    def write(self, tell: Callable[[int], object]) -> None:
        """Pictures, all other sections, the header, and the first page at last."""
        pictures, begin = [], PAGE
        parts = zip(self._work.records, split(self._work, self._journal.sizes), strict=True)
        for half, (records, known) in enumerate(list(parts)):
            size = sum(known)
            self._recall(half, begin, size)
            for made in _made(records, len(known), self._work.threads):
                for record in made:
                    self._sums[half].add(record)
                    self._new.append(len(record))
                self._append(b"".join(made))
                if self._is_time():
                    self._note()
                tell(len(made))
            self._note()
            pictures.append(Section(begin, self._place - begin))
            begin = aligned(self._place)
        os.ftruncate(self._descriptor, self._place)
        self._finish(pictures)

    def _recall(self, half: int, begin: int, size: int) -> None:
        """Go on behind `size` bytes of a half: what was in a block then is read again."""
        sums = self._sums[half]
        sums.complete = list(self._journal.blocks[half])
        self._place = begin + len(sums.complete) * BLOCK
        rest = begin + size - self._place
        found = os.pread(self._descriptor, rest, self._place) if rest else b""
        if len(found) != rest:
            raise OSError("what was written is gone")
        sums.add(found)
        self._place += rest

    def _append(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while len(rest):
            written = os.pwrite(self._descriptor, rest, self._place)
            self._place += written
            rest = rest[written:]

    def _is_time(self) -> bool:
        enough = self._place - self._noted >= self._work.noted_bytes
        return enough or time.monotonic() - self._noted_at >= _NOTED_SECONDS

    def _note(self) -> None:
        if self._new:
            skipped = dict(SKIPPED.reasons)
            os.fdatasync(self._descriptor)
            blocks = self._sums[0].complete, self._sums[1].complete
            self._journal.note(self._new, blocks, skipped)
            self._new = []
        self._noted, self._noted_at = self._place, time.monotonic()

    def _finish(self, pictures: list[Section]) -> None:
        found = []
        sizes = split(self._work, self._journal.sizes)
        for half, records in enumerate(self._work.records):
            source, offsets = records.source, None
            targets = source.labels.shape[1] if source.labels.ndim == 2 else 0
            labels = self._section(source.labels, "<f4" if targets else "<i8")
            if records.image_shape is None:
                offsets = self._section(np.cumsum([0, *sizes[half]]), "<i8")
            checksums = self._section(np.array(self._sums[half].all(), np.uint64), "<u8")
            found.append(
                PackedHalf(
                    len(source),
                    records.image_shape,
                    targets,
                    self._work.stored.contents(source),
                    pictures[half],
                    labels,
                    checksums,
                    offsets,
                )
            )
        halves = self._work.halves
        told = halves.description, halves.train.class_names, halves.train.channels, self._work.exif
        begin = aligned(self._place)
        header, first = written_header(PackedHeader(*told, *found), begin)
        self._place = begin
        self._append(header)
        os.fsync(self._descriptor)
        self._place = 0
        self._append(first)

    def _section(self, values: npt.NDArray[np.generic], kind: str) -> Section:
        data = np.ascontiguousarray(values, kind).tobytes()
        self._place = begin = aligned(self._place)
        self._append(data)
        return Section(begin, len(data), xxh3_128_hexdigest(data))


def _made(records: Records, begin: int, threads: int) -> Iterator[list[Record]]:
    """The records from `begin` on, in their order, a few at a time; memory is for some of each."""
    count = len(records.source)

    def some(first: int) -> list[Record]:
        return [records.record(row) for row in range(first, min(first + _AT_A_TIME, count))]

    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[list[Record]]] = deque()
    try:
        for first in range(begin, count, _AT_A_TIME):
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(some, first))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def split(work: PackingWork, sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """What is told of all pictures, by half."""
    count = len(work.records[0].source)
    return sizes[:count], sizes[count:]
