"""Sources whose pictures lie in other sources."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, contents_of_recipe
from knltrain.data.source import ImageSource, LabelArray, Pixels, Rows


class DerivedSource(ImageSource):
    """Labels of its own, and the pictures of other `sources`."""

    def __init__(
        self,
        sources: Sequence[ImageSource],
        labels: LabelArray,
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        first = sources[0]
        names = first.class_names if class_names is None else class_names
        super().__init__(labels, names, first.channels, first.image_shape)
        self.sources = tuple(sources)

    @abstractmethod
    def places(self, rows: Rows) -> tuple[Rows, Rows]:
        """Of pictures `rows` (n,): the number of the source of each, and its row there, (n,)."""

    def picture(self, row: int) -> Pixels:
        """As its source has it."""
        source, there = self._place(row)
        return source.picture(there)

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """As their sources have them."""
        numbers, there = self.places(rows)
        if not len(rows) or (numbers == numbers[0]).all():
            return self.sources[int(numbers[0]) if len(rows) else 0].pictures_of(there)
        return super().pictures_of(rows)

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C), source by source."""
        numbers, there = self.places(rows)
        for number in np.unique(numbers).tolist():
            (mine,) = np.nonzero(numbers == number)
            if len(mine) == len(rows):
                self.sources[number].read(there, out)
                return
            found = np.empty((len(mine), *out.shape[1:]), np.uint8)
            self.sources[number].read(there[mine], found)
            out[mine] = found

    def read_ahead(self, rows: Rows) -> None:
        """In their sources."""
        numbers, there = self.places(rows)
        for number in np.unique(numbers).tolist():
            self.sources[number].read_ahead(there[numbers == number])

    def encoded(self, row: int) -> bytes | memoryview | None:
        """As its source has it."""
        source, there = self._place(row)
        return source.encoded(there)

    def size(self) -> tuple[int, int]:
        """That of the first source."""
        return self.sources[0].size()

    @property
    def held_bytes(self) -> int:
        """Those of all sources."""
        return sum(source.held_bytes for source in self.sources)

    def picture_name(self, row: int) -> str:
        """As its source has it."""
        source, there = self._place(row)
        return source.picture_name(there)

    def chosen(self, rows: Rows) -> ImageSource:
        """Chosen in their sources, so that none but these take the place of broken ones."""
        return _Chosen(self, rows)

    def _place(self, row: int) -> tuple[ImageSource, int]:
        if not 0 <= row < len(self):
            raise IndexError(f"picture {row} of {len(self)}")
        numbers, there = self.places(np.array([row]))
        return self.sources[int(numbers[0])], int(there[0])


@final
class Selection(DerivedSource):
    """Pictures `rows` (n,) of another source, in that order."""

    def __init__(self, source: ImageSource, rows: Rows) -> None:
        super().__init__([source], source.labels[rows])
        self._rows = rows

    def places(self, rows: Rows) -> tuple[Rows, Rows]:
        """Those that were selected."""
        return np.zeros_like(rows), self._rows[rows]

    def contents(self) -> HalfContents:
        """Of the other source's contents and the rows."""
        whole = self.sources[0].contents()
        recipe = f"{whole.digest} {xxh3_128(np.ascontiguousarray(self._rows).data).hexdigest()}"
        return contents_of_recipe(recipe, len(self), whole.image_shape)


@final
class _Chosen(DerivedSource):
    """Pictures `rows` (n,) of a derived source: those of each of its sources are chosen there."""

    def __init__(self, whole: DerivedSource, rows: Rows) -> None:
        self._contents = Selection(whole, rows).contents()
        numbers, there = whole.places(rows)
        used, self._numbers = np.unique(numbers, return_inverse=True)
        self._there, parts = np.empty_like(rows), []
        for number in used.tolist():
            (mine,) = np.nonzero(numbers == number)
            self._there[mine] = np.arange(len(mine))
            parts.append(whole.sources[number].chosen(there[mine]))
        super().__init__(parts, whole.labels[rows], whole.class_names)

    def places(self, rows: Rows) -> tuple[Rows, Rows]:
        """In what was chosen of each source."""
        return self._numbers[rows], self._there[rows]

    def contents(self) -> HalfContents:
        """Of the whole source's contents and the rows."""
        return self._contents
