"""What becomes of each picture when a data set is packed: kept, or made smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
import simplejpeg

from knltrain.data.augmentation.framing import Fitted
from knltrain.data.contents import HalfContents, contents_of_recipe
from knltrain.data.decoding import MAX_PIXELS, Encoded, is_jpeg
from knltrain.data.source import ImageSource, Pixels
from knltrain.errors import BrokenPicture, DataError
from vectorized_ops.pictures import PicturePlan

if TYPE_CHECKING:
    from knltrain.data.augmentation.augmenting import MakesPass

Record: TypeAlias = Encoded
QUALITY: Final = 90
"""Of JPEGs, where the user asks for no other."""


@dataclass(frozen=True, slots=True)
class StoredAs:
    """How pictures are stored: as they are, or

    - with `short_side`, larger ones resized to so many pixels of the shorter side, as a JPEG of
      `quality` (1 to 100, colours at half the resolution); smaller JPEGs stay as they are,
    - with `side`, the largest square in the middle resized to `side` x `side`, raw.
    """

    short_side: int | None = None
    side: int | None = None
    quality: int = QUALITY

    def image_shape(self, source: ImageSource) -> tuple[int, int, int] | None:
        """(H,W,C) of raw pictures of one size; None of encoded ones. DataError for huge ones."""
        if self.side is not None:
            if self.side**2 > MAX_PIXELS:
                raise DataError(
                    f"--side {self.side}: a picture would have {self.side**2:,} pixels, expected "
                    f"{MAX_PIXELS:,} at most"
                )
            return self.side, self.side, source.channels
        return None if self.short_side is not None else source.image_shape

    def contents(self, source: ImageSource) -> HalfContents:
        """What tells the packed half from another one: the source's where pictures are kept."""
        whole = source.contents()
        if self.side is None and self.short_side is None:
            return whole
        shape = self.image_shape(source) or (0, 0, source.channels)
        return contents_of_recipe(f"{whole.digest} {self}", len(source), shape)


@final
class Records:
    """The bytes of each picture of a source; several threads may ask at once.

    `makes_pass` is an implementation of `vectorized_ops.reference.pictures.PicturePass`. Raises
    DataError for pictures of several sizes that are not encoded, unless they are resized.
    """

    def __init__(self, source: ImageSource, stored: StoredAs, makes_pass: MakesPass) -> None:
        self.source = source
        self.image_shape = stored.image_shape(source)
        self._stored, self._makes_pass = stored, makes_pass
        self.record: Callable[[int], Record] = self._raw
        if stored.side is not None:
            self.record = self._square
        elif stored.short_side is not None:
            self.record = self._smaller
        elif self.image_shape is None:
            self.record = self._as_it_is

    def _raw(self, row: int) -> Record:
        picture = self.source.picture(row)
        if picture.shape != self.image_shape:
            raise DataError(
                f"{self.source.picture_name(row)}: {picture.shape}, expected {self.image_shape}"
            )
        return picture.tobytes()

    def _as_it_is(self, row: int) -> Record:
        found = self.source.encoded(row)
        if found is None:
            raise DataError(
                f"{self.source.picture_name(row)}: raw pictures differ in size: expected one size, "
                "or --short-side or --side to bring them to one"
            )
        return found

    def _square(self, row: int) -> Record:
        picture, side = self.source.picture(row), self._stored.side
        assert side is not None
        box = Fitted((side, side)).parts(np.array([picture.shape[:2]]), None).boxes
        return self._resized(picture, box, (side, side)).tobytes()

    def _smaller(self, row: int) -> Record:
        picture, short = self.source.picture(row), self._stored.short_side
        assert short is not None
        height, width, channels = picture.shape
        if min(height, width) > short:
            step = min(height, width) / short
            shape = round(height / step), round(width / step)
            picture = self._resized(picture, np.array([[0.0, 0.0, height, width]]), shape)
        else:
            kept = self.source.encoded(row)
            if kept is not None and is_jpeg(kept):
                return kept
        space, subsampling = ("GRAY", "Gray") if channels == 1 else ("RGB", "420")
        pixels = np.ascontiguousarray(picture)
        try:
            return bytes(simplejpeg.encode_jpeg(pixels, self._stored.quality, space, subsampling))
        except ValueError as error:
            raise BrokenPicture(
                f"{self.source.picture_name(row)}: {pixels.shape[0]:,} x {pixels.shape[1]:,} "
                f"pixels cannot be encoded ({error}): expected at most 65,500 of each side; remove "
                "this picture"
            ) from error

    def _resized(
        self,
        picture: Pixels,
        box: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
        shape: tuple[int, int],
    ) -> Pixels:
        """A box of a picture as (H,W,C), rounded to bytes."""
        channels = picture.shape[2]
        made = self._makes_pass(
            (*shape, channels), np.zeros(channels, np.float32), np.ones(channels, np.float32)
        )
        out = np.empty((1, *shape, channels), np.float32)
        made.write([picture], PicturePlan(box, np.zeros(1, np.bool_)), out)
        found: Pixels = np.rint(out[0]).clip(0, 255).astype(np.uint8)
        return found
