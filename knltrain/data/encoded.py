"""Pictures as they are encoded, each by itself, decoded when they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from knltrain.data.contents import HalfContents
from knltrain.data.decoding import MAX_PIXELS, Encoded, decode, picture_size
from knltrain.data.derived import Selection
from knltrain.data.source import SKIPPED, ImageSource, LabelArray, Pixels, Rows
from knltrain.errors import BrokenPicture, DataError

MOST_IN_A_ROW = 100
"""Pictures that are tried in place of a broken one: if all are broken, something else is wrong."""
SKIPPING = ", or set data.broken = 'skip' to go on without it"
"""What the message of a broken picture ends with."""
_LOOKED_AT = 32
"""Pictures at equal distances whose headers tell the size of all."""


class EncodedPictures(ABC):
    """Where the files or records of encoded pictures lie; read by several threads at once."""

    @abstractmethod
    def data(self, row: int) -> Encoded:
        """The bytes of picture `row`; DataError where they are gone."""

    @abstractmethod
    def name(self, row: int) -> str:
        """Where picture `row` lies, for messages."""

    def read_ahead(self, rows: Rows) -> None:  # noqa: B027
        """Let the disk read pictures `rows` (n,), ascending: they are asked for soon."""

    def expect(self, rows: Rows) -> None:  # noqa: B027
        """Pictures `rows` (n,) are asked for next, by this thread."""


@dataclass(frozen=True, slots=True)
class DecodingRules:
    """How pictures are decoded, and whether a broken one is passed over (`skip`) or stops all."""

    max_pixels: int = MAX_PIXELS
    exif: bool = False
    skip: bool = False


@final
class EncodedSource(ImageSource):
    """Encoded pictures of any sizes, one half of a data set.

    With `rules.skip`, the next good picture with the same label takes the place of a broken one:
    that depends on the files alone, so all workers and all epochs see the same, and an epoch keeps
    its length and its classes. `knltrain.data.skipped` counts them.
    """

    def __init__(
        self,
        pictures: EncodedPictures,
        labels: LabelArray,
        class_names: tuple[str, ...],
        channels: int,
        contents: HalfContents,
        rules: DecodingRules | None = None,
    ) -> None:
        super().__init__(labels, class_names, channels)
        self.pictures = pictures
        self.rules = rules or DecodingRules()
        self._contents = contents
        self._places: dict[int, int] = {}

    def picture(
        self, row: int, least: tuple[int, int] | None = None, buffer: Pixels | None = None
    ) -> Pixels:
        """Picture `row` (H,W,C); `least` and `buffer` as `knltrain.data.decoding.decode` has them.

        Raises BrokenPicture, unless it is skipped, and DataError for a file that is gone.
        """
        place = self._places.get(row, row) if self._places else row
        try:
            return self._decoded(place, least, buffer)
        except BrokenPicture as error:
            if not self.rules.skip:
                raise _stopping(error) from error
            return self._next_good(row, error, least, buffer)

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """Decoded, each as `picture` gives it."""
        self.pictures.expect(rows)
        return super().pictures_of(rows)

    def encoded(self, row: int) -> Encoded:
        """The bytes of picture `row`, or of the one that takes its place; BrokenPicture."""
        self.picture(row)
        return self.pictures.data(self._places.get(row, row))

    def read_ahead(self, rows: Rows) -> None:
        """As their files can."""
        self.pictures.read_ahead(rows)

    def picture_name(self, row: int) -> str:
        """Its file, or its place in one."""
        return self.pictures.name(row)

    @property
    def held_bytes(self) -> int:
        """None: pictures stay in their files."""
        return 0

    def size(self) -> tuple[int, int]:
        """Height and width that the pictures seem to have, by the headers of a few of them.

        Raises DataError where these differ, and BrokenPicture for one without, unless it is
        skipped.
        """
        count = min(len(self), _LOOKED_AT)
        found: dict[tuple[int, int], str] = {}
        for row in (np.arange(count) * len(self) // count).tolist():
            name = self.pictures.name(row)
            try:
                size = picture_size(self.pictures.data(row), name, self.rules.exif)
            except BrokenPicture as error:
                if not self.rules.skip:
                    raise _stopping(error) from error
                broken = error
                continue
            found.setdefault(size, name)
        if not found:
            raise broken
        if len(found) > 1:
            told = (f"{name} has {size[0]:,} x {size[1]:,}" for size, name in found.items())
            raise DataError(
                f"{next(told)} pixels, {next(told)}: expected one size; set data.side_pixels to "
                "that of all images, as the network takes them"
            )
        return next(iter(found))

    def chosen(self, rows: Rows) -> EncodedSource:
        """Pictures `rows` (n,) of this source, in that order: another such source."""
        return EncodedSource(
            _Chosen(self.pictures, rows),
            self.labels[rows],
            self.class_names,
            self.channels,
            Selection(self, rows).contents(),
            self.rules,
        )

    def contents(self) -> HalfContents:
        """As given."""
        return self._contents

    def _decoded(self, row: int, least: tuple[int, int] | None, buffer: Pixels | None) -> Pixels:
        rules, name = self.rules, self.pictures.name(row)
        return decode(
            self.pictures.data(row),
            self.channels,
            name,
            least=least,
            buffer=buffer,
            max_pixels=rules.max_pixels,
            exif=rules.exif,
        )

    def _next_good(
        self, row: int, error: BrokenPicture, least: tuple[int, int] | None, buffer: Pixels | None
    ) -> Pixels:
        found = {self.pictures.name(row): str(error)}
        for place in next_alike(self.labels, row)[:MOST_IN_A_ROW].tolist():
            try:
                pixels = self._decoded(place, least, buffer)
            except BrokenPicture as another:
                found[self.pictures.name(place)] = str(another)
                continue
            SKIPPED.add(found)
            self._places[row] = place
            return pixels
        raise not_skipped(error, len(found) - 1)


def next_alike(labels: LabelArray, row: int) -> Rows:
    """The other pictures with the label of picture `row`, from it on and then from the first."""
    same = labels == labels[row]
    alike = np.flatnonzero(same if same.ndim == 1 else same.all(axis=1))
    return np.roll(alike, -1 - np.searchsorted(alike, row))[:-1]


def not_skipped(error: BrokenPicture, tried: int) -> BrokenPicture:
    """That so many pictures could not take the place of a broken one."""
    return BrokenPicture(
        f"{error}; it cannot be skipped, as none of the {tried:,} next pictures with its label is "
        "whole"
    )


def _stopping(error: BrokenPicture) -> BrokenPicture:
    return BrokenPicture(f"{error}{SKIPPING}")


@final
class _Chosen(EncodedPictures):
    """Some of other pictures."""

    def __init__(self, pictures: EncodedPictures, rows: Rows) -> None:
        self._pictures = pictures
        self._rows = rows

    def data(self, row: int) -> Encoded:
        return self._pictures.data(int(self._rows[row]))

    def name(self, row: int) -> str:
        return self._pictures.name(int(self._rows[row]))

    def read_ahead(self, rows: Rows) -> None:
        self._pictures.read_ahead(self._rows[rows])
