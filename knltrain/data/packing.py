"""Writes a packed data set: pictures in order, made by several threads, from where it was left."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128_hexdigest

from affinity.numbers import format_bytes
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
from knltrain.data.skipped import SKIPPED
from knltrain.errors import DataError
from knltrain.files.durable import reason_of, sync

_AT_A_TIME: Final = 16
"""Pictures that a thread makes before it takes others."""
_NOTED_SECONDS: Final = 5.0
"""After so much time what was written is noted in the journal."""


def pack(
    work: PackingWork,
    path: Path,
    tell: Callable[[int], object] = lambda _done: None,
    say: Callable[[str], object] = lambda _note: None,
) -> None:
    """Write `path`, by way of PATH.partial; `tell` is called with how many pictures more are done.

    What an interrupted call has left is gone on with; `say` is told so. Raises DataError where the
    file is there already, there is no room, or it cannot be written, and BrokenPicture.
    """
    partial = path.with_name(path.name + ".partial")
    journal = Journal(path.with_name(path.name + ".partial.journal"))
    if path.exists():
        raise DataError(f"{path}: is there already: choose another name, or remove it")
    _check_room(work, path, partial)
    try:
        with _locked(partial) as descriptor:
            _begin(work, descriptor, journal, say)
            writer = _Writer(work, descriptor, journal)
            tell(len(journal.sizes))
            writer.write(tell)
            os.fsync(descriptor)
            partial.replace(path)
            sync(path.parent)
            journal.remove()
    except OSError as error:
        raise DataError(
            f"{partial}: cannot be written ({reason_of(error)}): expected a folder with room; the "
            "same command goes on from what is there"
        ) from error


def _check_room(work: PackingWork, path: Path, partial: Path) -> None:
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}: make it first")
    needed, free = work.size(), shutil.disk_usage(path.parent).free
    if partial.exists():
        free += partial.stat().st_size
    if needed > free:
        raise DataError(
            f"{path}: takes {format_bytes(needed)}, and {format_bytes(free)} are free in "
            f"{path.parent}: expected room for it; choose another folder, or --short-side or --side"
        )


@contextmanager
def _locked(partial: Path) -> Iterator[int]:
    """The open partial file, which no other process writes meanwhile."""
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(
                f"{partial}: another process writes it: wait for its end, or choose another name"
            ) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _begin(
    work: PackingWork, descriptor: int, journal: Journal, say: Callable[[str], object]
) -> None:
    """Find out what is there already, and begin anew if that is nothing of use."""
    key, size = work.key(), os.fstat(descriptor).st_size
    known = journal.load(key)
    if known and len(journal.sizes) <= len(work) and _end(work, journal) <= size:
        if len(journal.sizes):
            say(f"{len(journal.sizes):,} of {len(work):,} pictures are packed already")
        SKIPPED.add(journal.skipped)
        return
    if size:
        why = "is damaged" if known else "is of other data or options"
        say(f"what an earlier packing has left {why}: all is packed anew")
    os.ftruncate(descriptor, 0)
    journal.begin(key)


def _end(work: PackingWork, journal: Journal) -> int:
    train, test = _split(work, journal.sizes)
    return aligned(PAGE + sum(train)) + sum(test) if len(test) else PAGE * bool(train) + sum(train)


def _split(work: PackingWork, sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    count = len(work.records[0].source)
    return sizes[:count], sizes[count:]


@final
class _Writer:
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
        parts = zip(self._work.records, _split(self._work, self._journal.sizes), strict=True)
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
        sizes = _split(self._work, self._journal.sizes)
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
