"""Pictures in files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.encoded import EncodedPictures
from knltrain.data.readers.encoded_half import digest_of
from knltrain.data.readers.texts import Texts
from knltrain.errors import DataError

SUFFIXES: Final = frozenset(
    {
        *(".jpg", ".jpeg", ".jfif", ".png", ".ppm", ".pgm", ".pbm", ".pnm", ".bmp", ".gif"),
        *(".tif", ".tiff", ".webp"),
    }
)
"""Of files that are taken for pictures, in lower case; what they are, their content says."""

_LOOKED_AT = 32


@final
class PictureFiles(EncodedPictures):
    """Files below `folder`: their names, and int64 (n,) bytes of each when they were listed.

    Picture i is file order[i] of these; without `order`, file i. `list_file` names them, if one
    does.
    """

    def __init__(
        self,
        folder: Path,
        names: Texts,
        sizes: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64] | None = None,
        list_file: Path | None = None,
    ) -> None:
        self._folder = folder
        self._names = names
        self._sizes = sizes
        self._order = order
        self._list_file = list_file

    def in_order(self, order: npt.NDArray[np.int64]) -> PictureFiles:
        """The same files as other pictures."""
        return PictureFiles(self._folder, self._names, self._sizes, order)

    def listed(self) -> bytes:
        """A digest of the names and sizes."""
        return digest_of(self._names.content, self._names.ends, self._sizes)

    def data(self, row: int) -> bytes:
        """The whole file; DataError where it is gone or another one."""
        number = self._number(row)
        path, size = self._folder / self._names[number], int(self._sizes[number])
        try:
            with path.open("rb", buffering=0) as file:
                found = file.read(size + 1)
        except FileNotFoundError as error:
            raise DataError(
                f"{path}: is gone, but was there when the pictures were listed: expected it to "
                "stay; put it back, or start anew to have them listed anew"
            ) from error
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror}): is the disk still there, and may this "
                "user read it?"
            ) from error
        if len(found) != size:
            raise DataError(
                f"{path}: has no longer the {size:,} bytes that it had when the pictures were "
                "listed: expected no changes; to have them listed anew: touch "
                f"{self._list_file or path.parent}"
            )
        return found

    def name(self, row: int) -> str:
        """Its path."""
        return str(self._folder / self._names[self._number(row)])

    def still_there(self) -> bool:
        """Whether a few of them, at equal distances, are as large as they were."""
        count = min(len(self._sizes), _LOOKED_AT)
        try:
            return all(
                (self._folder / self._names[number]).stat().st_size == self._sizes[number]
                for number in (np.arange(count) * len(self._sizes) // count).tolist()
            )
        except OSError:
            return False

    def _number(self, row: int) -> int:
        return row if self._order is None else int(self._order[row])
