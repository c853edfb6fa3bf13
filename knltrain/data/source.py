"""Labelled pictures as bytes, in a fixed order: what every reader of a data set makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import HalfContents
from knltrain.errors import DataError
from knltrain.vectors import FloatArray
from vectorized_ops.pictures import PicturesOf

LabelArray = npt.NDArray[np.int64] | FloatArray
"""Classes int64 (n,), or targets float32 (n, classes): 1 for classes that are there, or shares."""

Pixels = npt.NDArray[np.uint8]
"""Of one picture (H,W,C), or of several (n,H,W,C)."""

Rows = npt.NDArray[np.int64]
"""Numbers of pictures, (n,)."""


class ImageSource(ABC):
    """One half of a data set: pictures uint8 and their labels.

    Picture i is the same in every process that opens the source. Labels lie in memory, pictures
    need not: they are mapped from files, or decoded when they are asked for. Sources may be read by
    several threads at once. Raises DataError where there are no pictures.
    """

    labels: LabelArray
    class_names: tuple[str, ...]
    """By number; ("0", "1", ...) where the files name none."""
    image_shape: tuple[int, int, int] | None
    """(H,W,C) of all pictures; None where their sizes differ."""
    channels: int
    """Of every picture: 1 or 3 (red, green, blue)."""
    notes: tuple[str, ...] = ()
    """What the user should know of the files."""

    def __init__(
        self,
        labels: LabelArray,
        class_names: tuple[str, ...],
        channels: int,
        image_shape: tuple[int, int, int] | None = None,
    ) -> None:
        if not len(labels):
            raise DataError("there are no images: expected at least one")
        self.labels = labels
        self.class_names = class_names
        self.channels = channels
        self.image_shape = image_shape

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def picture(self, row: int) -> Pixels:
        """Picture `row` (H,W,C): a view where it lies in memory, else decoded into a new array.

        Raises BrokenPicture, a DataError, with its name and what is wrong with it.
        """

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """Pictures `rows` (n,), each as `picture` gives it."""
        return [self.picture(row) for row in rows.tolist()]

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,), all of `image_shape`, to `out` (n,H,W,C)."""
        for row, picture in zip(rows.tolist(), out, strict=True):
            picture[:] = self.picture(row)

    def encoded(self, row: int) -> bytes | memoryview | None:  # noqa: ARG002
        """Picture `row` as it is encoded, after it was found to be whole; None of a raw one.

        Raises BrokenPicture as `picture` does.
        """
        return None

    def chosen(self, rows: Rows) -> ImageSource:
        """Pictures `rows` (n,) of this source, in that order."""
        from knltrain.data.derived import Selection  # which is such a source itself

        return Selection(self, rows)

    def read_ahead(self, rows: Rows) -> None:  # noqa: B027
        """Let the disk read pictures `rows` (n,), ascending: they are asked for soon."""

    def size(self) -> tuple[int, int]:
        """Height and width of the pictures; DataError where they differ."""
        assert self.image_shape is not None, "sources of several sizes look at them"
        return self.image_shape[:2]

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Of pictures in this process's own memory, 0 of those in mapped files."""

    @abstractmethod
    def picture_name(self, row: int) -> str:
        """Where picture `row` lies, for messages."""

    @abstractmethod
    def contents(self) -> HalfContents:
        """What tells this half from another one, the same on every computer."""


@final
class ArraySource(ImageSource):
    """Pictures uint8 (N,H,W,C) in one array, in memory or mapped from a file; labels (N,).

    `origin` names their file.
    """

    def __init__(
        self,
        pixels: Pixels,
        labels: LabelArray,
        class_names: tuple[str, ...],
        contents: HalfContents,
        origin: str,
    ) -> None:
        _, height, width, channels = pixels.shape
        super().__init__(labels, class_names, channels, (height, width, channels))
        if len(pixels) != len(labels):
            raise DataError(f"{origin}: {len(pixels)} images have {len(labels)} labels")
        self.pixels = pixels
        self._contents = contents
        self._origin = origin

    def picture(self, row: int) -> Pixels:
        """A view."""
        found: Pixels = self.pixels[row]
        return found

    def pictures_of(self, rows: Rows) -> PicturesOf:
        """Views."""
        return PicturesOf(self.pixels, rows)

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C)."""
        # mode="clip" writes straight into `out`; the default would go through a buffer.
        np.take(self.pixels, rows, axis=0, out=out, mode="clip")

    def read_ahead(self, rows: Rows) -> None:
        """Of a mapped file, all from the first to the last."""
        from knltrain.data.mapped import mapped_base
        from knltrain.files.read_ahead import read_ahead

        mapped = mapped_base(self.pixels)
        if mapped is None or not len(rows):
            return
        first, last = (self.pixels[row].__array_interface__["data"][0] for row in rows[[0, -1]])
        begin = min(first, last) - mapped.__array_interface__["data"][0] + mapped.offset
        size = abs(last - first) + self.pixels[0].nbytes
        read_ahead(Path(str(mapped.filename)), int(begin), int(size))

    @property
    def held_bytes(self) -> int:
        """All, unless they are mapped from a file."""
        from knltrain.data.mapped import mapped_base

        return self.pixels.nbytes if mapped_base(self.pixels) is None else 0

    def picture_name(self, row: int) -> str:
        """Its file and number."""
        return f"{self._origin}, image {row}"

    def contents(self) -> HalfContents:
        """As given."""
        return self._contents


@final
class Skipped:
    """Broken pictures that were passed over: why, by their names; threads may add at once."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.reasons)

    def add(self, reasons: Mapping[str, str]) -> None:
        """Add pictures; those that are known already count once."""
        self.reasons.update(reasons)

    def __str__(self) -> str:
        many = "s were" if len(self) > 1 else " was"
        first = next(iter(self.reasons.values()), "")
        why = first.partition(": expected")[0]  # what to do about it is to skip it
        return f"{len(self):,} broken picture{many} skipped, such as {why}"


SKIPPED: Final = Skipped()
"""Those of this process."""
