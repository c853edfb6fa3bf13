"""A data set's pictures with the class numbers of a model, which knows classes by their names."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.data.contents import HalfContents
from knltrain.data.derived import DerivedSource
from knltrain.data.source import ImageSource, LabelArray, Rows
from knltrain.errors import DataError

_MOST_TOLD = 10


@final
class Relabelled(DerivedSource):
    """The pictures of another source with other labels, of classes `class_names`."""

    def __init__(
        self, source: ImageSource, labels: LabelArray, class_names: tuple[str, ...]
    ) -> None:
        super().__init__([source], labels, class_names)
        self.notes = source.notes

    def places(self, rows: Rows) -> tuple[Rows, Rows]:
        """All as they are."""
        return np.zeros_like(rows), rows

    def contents(self) -> HalfContents:
        """As read, before their classes got other numbers."""
        return self.sources[0].contents()


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
