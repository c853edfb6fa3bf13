"""A source made of several: those of the files of one half, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents
from knltrain.data.source import ImageSource, Pixels, Rows
from knltrain.errors import DataError


@final
class Joined(ImageSource):
    """The pictures of several sources, one after another.

    Raises DataError where they differ in shape, channels or kind of labels.
    """

    def __init__(self, parts: Sequence[ImageSource]) -> None:
        first = parts[0]
        for number, part in enumerate(parts):
            told = part.image_shape, part.channels, part.labels.shape[1:], part.class_names
            if told != (
                first.image_shape,
                first.channels,
                first.labels.shape[1:],
                first.class_names,
            ):
                raise DataError(
                    f"{part.picture_name(0)}: pictures (H, W, C) = {told[0]}, labels {told[2]}, "
                    f"{len(told[3])} named classes; those of {first.picture_name(0)} have "
                    f"{first.image_shape}, {first.labels.shape[1:]}, {len(first.class_names)}: "
                    f"expected the same in all {len(parts)} files (this is number {number + 1})"
                )
        labels = np.concatenate([part.labels for part in parts])
        super().__init__(labels, first.class_names, first.channels, first.image_shape)
        self.parts = tuple(parts)
        self._begins = np.cumsum([0, *(len(part) for part in parts)])

    def _place(self, row: int) -> tuple[ImageSource, int]:
        if not 0 <= row < len(self):
            raise IndexError(f"picture {row} of {len(self)}")
        number = int(np.searchsorted(self._begins, row, side="right")) - 1
        return self.parts[number], row - int(self._begins[number])

    def picture(self, row: int) -> Pixels:
        """As its source has it."""
        part, place = self._place(row)
        return part.picture(place)

    def encoded(self, row: int) -> bytes | memoryview | None:
        """As its source has it."""
        part, place = self._place(row)
        return part.encoded(place)

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C), source by source."""
        numbers = np.searchsorted(self._begins, rows, side="right") - 1
        for number in np.unique(numbers).tolist():
            (places,) = np.nonzero(numbers == number)
            wanted = rows[places] - self._begins[number]
            read = np.empty((len(places), *out.shape[1:]), np.uint8)
            self.parts[number].read(wanted, read)
            out[places] = read

    @property
    def held_bytes(self) -> int:
        """Those of all sources."""
        return sum(part.held_bytes for part in self.parts)

    def picture_name(self, row: int) -> str:
        """As its source has it."""
        part, place = self._place(row)
        return part.picture_name(place)

    def contents(self) -> HalfContents:
        """By those of the sources in their order."""
        found, shape = xxh3_128(), (0, 0, 0)
        for part in self.parts:
            contents = part.contents()
            found.update(contents.digest.encode())
            shape = contents.image_shape
        return HalfContents(len(self), shape, found.hexdigest())


def joined(parts: Sequence[ImageSource]) -> ImageSource:
    """Several sources as one; a single one as it is."""
    return parts[0] if len(parts) == 1 else Joined(parts)
