"""A source made of several: those of the files of one half, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents
from knltrain.data.derived import DerivedSource
from knltrain.data.source import ImageSource, Rows
from knltrain.errors import DataError


@final
class Joined(DerivedSource):
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
        super().__init__(parts, labels)
        self._begins = np.cumsum([0, *(len(part) for part in parts)])

    def places(self, rows: Rows) -> tuple[Rows, Rows]:
        """In the source that has so many before it."""
        numbers = np.searchsorted(self._begins, rows, side="right") - 1
        return numbers, rows - self._begins[numbers]

    def contents(self) -> HalfContents:
        """By those of the sources in their order."""
        found, shape = xxh3_128(), (0, 0, 0)
        for part in self.sources:
            contents = part.contents()
            found.update(contents.digest.encode())
            shape = contents.image_shape
        return HalfContents(len(self), shape, found.hexdigest())


def joined(parts: Sequence[ImageSource]) -> ImageSource:
    """Several sources as one; a single one as it is."""
    return parts[0] if len(parts) == 1 else Joined(parts)
