"""LMDB environments for reading, opened once in each process and checked before they are mapped."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock, local
from typing import Final, final

import lmdb

from knltrain.data.mapped import note_mapped
from knltrain.errors import DataError
from knltrain.files.durable import reason_of
from knltrain.files.regular import regular

_WAYS: Final = (
    "copy it again, as a whole, and to a local disk or /dev/shm where it lies on NFS or Lustre; no "
    "program may write it meanwhile"
)


@final
class Environment:
    """An LMDB for reading, without locks, in the process that opened it.

    What is got from it stays valid: it is closed with the process.
    """

    def __init__(self, path: Path) -> None:
        self.process = os.getpid()
        self._threads = local()
        try:
            regular(data_file(path))
            self.lmdb = lmdb.open(
                str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False
            )
            note_mapped(data_file(path))
            size = data_file(path).stat().st_size
        except (lmdb.Error, OSError) as error:
            raise unreadable(path, error) from error
        needed = (self.lmdb.info()["last_pgno"] + 1) * self.lmdb.stat()["psize"]
        if size < needed:
            self.lmdb.close()
            raise DataError(
                f"{data_file(path)}: truncated: it has {size:,} bytes, and its last page ends at "
                f"{needed:,}: {_WAYS}"
            )

    def get(self, key: bytes) -> memoryview | None:
        """The record of a key, in the mapped file; of several threads each reads by itself."""
        found = self.transaction().get(key)
        return None if found is None else memoryview(found)

    def transaction(self) -> lmdb.Transaction:
        """That of the calling thread."""
        found: lmdb.Transaction | None = getattr(self._threads, "transaction", None)
        if found is None:
            found = self._threads.transaction = self.lmdb.begin(buffers=True)
        return found

    def close(self) -> None:
        """Unmap it; what was got from it must not be used any more."""
        self.lmdb.close()


_OPEN: Final[dict[str, Environment]] = {}
"""By their paths in full."""
_LOCK: Final = Lock()


def environment(place: str) -> Environment:
    """The environment at a resolved path, a folder with data.mdb or a file; opened if need be.

    One that comes from a process before a fork is opened anew. Raises DataError for one that is
    truncated, or cannot be read.
    """
    found = _OPEN.get(place)
    if found is not None and found.process == os.getpid():
        return found
    with _LOCK:
        found = _OPEN.get(place)
        if found is not None and found.process != os.getpid():
            found.close()
            found = None
        if found is None:
            found = _OPEN[place] = Environment(Path(place))
        return found


def data_file(path: Path) -> Path:
    """The file of an LMDB, which is one or the folder of it."""
    return path / "data.mdb" if path.is_dir() else path


def unreadable(path: Path, error: Exception) -> DataError:
    """That an LMDB cannot be read, and why."""
    return DataError(f"{path}: this LMDB cannot be read ({reason_of(error)}): {_WAYS}")
