"""Writes a packed data set: pictures in order, made by several threads, from where it was left."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from affinity.numbers import format_bytes
from knltrain.data.packed_format import PAGE, aligned
from knltrain.data.packing_journal import Journal
from knltrain.data.packing_work import PackingWork
from knltrain.data.packing_writer import Writer, split
from knltrain.data.source import SKIPPED
from knltrain.errors import DataError
from knltrain.files.durable import reason_of, sync


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
            writer = Writer(work, descriptor, journal)
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
    train, test = split(work, journal.sizes)
    return aligned(PAGE + sum(train)) + sum(test) if len(test) else PAGE * bool(train) + sum(train)
