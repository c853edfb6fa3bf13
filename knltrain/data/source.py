"""Labelled pictures as bytes, in a fixed order: what every reader of a data set makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, contents_of_recipe
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

    def chosen(self, rows: Rows) -> ImageSource:
        """Pictures `rows` (n,) of this source, in that order."""
        return Selection(self, rows)

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

    @property
    def held_bytes(self) -> int:
        """All, unless they are mapped from a file."""
        base: object = self.pixels
        while isinstance(base, np.ndarray):
            if isinstance(base, np.memmap):
                return 0
            base = base.base
        return self.pixels.nbytes

    def picture_name(self, row: int) -> str:
        """Its file and number."""
        return f"{self._origin}, image {row}"

    def contents(self) -> HalfContents:
        """As given."""
        return self._contents


@final
class Selection(ImageSource):
    """Pictures `rows` (n,) of another source, in that order."""

    def __init__(self, source: ImageSource, rows: Rows) -> None:
        super().__init__(
            source.labels[rows], source.class_names, source.channels, source.image_shape
        )
        self._source = source
        self._rows = rows

    def picture(self, row: int) -> Pixels:
        """That of the other source."""
        return self._source.picture(int(self._rows[row]))

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """Those of the other source."""
        return self._source.pictures_of(self._rows[rows])

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C)."""
        self._source.read(self._rows[rows], out)

    def size(self) -> tuple[int, int]:
        """Those of the other source."""
        return self._source.size()

    @property
    def held_bytes(self) -> int:
        """All of the other source."""
        return self._source.held_bytes

    def picture_name(self, row: int) -> str:
        """Its name in the other source."""
        return self._source.picture_name(int(self._rows[row]))

    def contents(self) -> HalfContents:
        """Of the other source's contents and the rows."""
        whole = self._source.contents()
        recipe = f"{whole.digest} {xxh3_128(np.ascontiguousarray(self._rows).data).hexdigest()}"
        return contents_of_recipe(recipe, len(self), whole.image_shape)
