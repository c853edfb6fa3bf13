"""Pictures of one array, by number, in place of a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final, overload

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


@final
class PicturesOf(Sequence[Pixels]):
    """The pictures `rows` int64 (n,) of `pixels` uint8 (N,h,w,C), each a view.

    What takes many pictures can do for all of them what a list takes a call for each.
    """

    def __init__(self, pixels: Pixels, rows: npt.NDArray[np.int64]) -> None:
        self.pixels: Final = pixels
        self.rows: Final = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Pixels: ...

    @overload
    def __getitem__(self, index: slice) -> PicturesOf: ...

    def __getitem__(self, index: int | slice) -> Pixels | PicturesOf:
        """A view of a picture, or some of the pictures."""
        if isinstance(index, slice):
            return PicturesOf(self.pixels, self.rows[index])
        found: Pixels = self.pixels[self.rows[index]]
        return found

    def reversed(self) -> PicturesOf:
        """The same with the order of the channels reversed."""
        return PicturesOf(self.pixels[..., ::-1], self.rows)
