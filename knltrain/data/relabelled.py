"""A data set's pictures with the class numbers of a model, which knows classes by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from knltrain.data.contents import HalfContents
from knltrain.data.source import ImageSource, LabelArray, Pixels, Rows
from knltrain.errors import DataError

_MOST_TOLD = 10


@final
class Relabelled(ImageSource):
    """The pictures of another source with other labels, of classes `class_names`."""

    def __init__(
        self, source: ImageSource, labels: LabelArray, class_names: tuple[str, ...]
    ) -> None:
        super().__init__(labels, class_names, source.channels, source.image_shape)
        self._source = source
        self.notes = source.notes

    def picture(self, row: int) -> Pixels:
        """That of the other source."""
        return self._source.picture(row)

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """Those of the other source."""
        return self._source.pictures_of(rows)

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C)."""
        self._source.read(rows, out)

    def size(self) -> tuple[int, int]:
        """That of the other source."""
        return self._source.size()

    @property
    def held_bytes(self) -> int:
        """Those of the other source."""
        return self._source.held_bytes

    def picture_name(self, row: int) -> str:
        """That of the other source."""
        return self._source.picture_name(row)

    def contents(self) -> HalfContents:
        """As read, before their classes got other numbers."""
        return self._source.contents()


def with_classes_of(source: ImageSource, class_names: tuple[str, ...], where: str) -> ImageSource:
    """The source with labels in the order of `class_names`, matched by their names.

    Classes without pictures may be missing. Raises DataError, with `where` the pictures come from,
    for classes that are not among `class_names`, and names that several classes have.
    """
    own = source.class_names
    if own == class_names:
        return source
    for names in (own, class_names):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(
                f"{where}: several classes are called {told(twice)}: expected a name for each, by "
                "which they are matched with those of the model"
            )
    missing = [name for name in own if name not in class_names]
    if missing:
        raise DataError(
            f"{where}: the model does not know the classes {told(missing)}: expected some of "
            f"{told(class_names)}; leave these pictures out, or give the classes the model's names "
            "by a file (data.class_names)"
        )
    places = np.array([class_names.index(name) for name in own], np.int64)
    if source.labels.ndim == 1:
        labels: LabelArray = places[source.labels.astype(np.int64)]
    else:
        labels = np.zeros((len(source), len(class_names)), np.float32)
        labels[:, places] = source.labels
    return Relabelled(source, labels, class_names)


def told(names: tuple[str, ...] | list[str]) -> str:
    """Names in a message, a few of many."""
    shown = ", ".join(f"'{name}'" for name in names[:_MOST_TOLD])
    more = len(names) - _MOST_TOLD
    return f"{shown} and {more:,} more" if more > 0 else shown
