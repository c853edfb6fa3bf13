"""Files that are read at any place, of which a few are open at a time."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from knltrain.errors import DataError
from knltrain.files.durable import reason_of

MOST_OPEN: Final = 64
"""In a process: more could be more than it may have."""


@final
class OpenFiles:
    """Files `paths` of `sizes` bytes, opened when they are read, by several threads at once.

    They are read, not mapped: where a disk is gone, that is an error, and not the process's end.
    """

    def __init__(self, paths: Sequence[Path], sizes: Sequence[int]) -> None:
        self._paths = paths
        self._sizes = sizes
        self._lock = threading.Lock()
        self._open: OrderedDict[int, _Descriptor] = OrderedDict()

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` of file `number`; DataError where they are gone."""
        try:
            descriptor = self._descriptor(number)
            found = os.pread(descriptor.number, size, offset)
        except OSError as error:
            raise DataError(
                f"{self._paths[number]}: cannot be read any more ({reason_of(error)}): is the disk "
                "still there, and may this user read it?"
            ) from error
        if len(found) != size:
            raise self._changed(number)
        return found

    def _descriptor(self, number: int) -> _Descriptor:
        with self._lock:
            found = self._open.get(number)
            if found is not None:
                self._open.move_to_end(number)
                return found
            found = _Descriptor(self._paths[number])
            if os.fstat(found.number).st_size != self._sizes[number]:
                raise self._changed(number)
            self._open[number] = found
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return found

    def _changed(self, number: int) -> DataError:
        return DataError(
            f"{self._paths[number]}: has no longer {self._sizes[number]:,} bytes: expected files "
            "that stay as they are while they are read; start anew"
        )


@final
class _Descriptor:
    """An open file, closed when nobody has it any more: other threads may still read."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self.number)
