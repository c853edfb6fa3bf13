"""Pictures of any size, number and number of classes, computed when they are read.

They are noise, and a grid of slightly lighter and darker fields that is the same in all pictures of
a class: enough for a loss to fall. Nothing is kept: as many as ImageNet has take no memory.
"""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import HalfContents, contents_of_recipe
from knltrain.data.dataset import Halves, numbered
from knltrain.data.source import ImageSource, Pixels, Rows

TRAIN_IMAGES: Final = 50_000
TEST_IMAGES: Final = 10_000

_GRID: Final = 4
"""Fields along each side."""
_DARK, _LIGHT = 56, 72
"""What is added to noise of 0 to 127."""
_RECIPE: Final = "random pictures 1"


@final
class RandomSource(ImageSource):
    """`images` pictures uint8 of `image_shape`, a function of (half, number) each.

    Class i % classes is that of picture i. Raw numbers of Philox are the noise, so pictures are the
    same on every computer.
    """

    def __init__(
        self, images: int, image_shape: tuple[int, int, int], classes: int, half: int
    ) -> None:
        labels = np.arange(images, dtype=np.int64)
        labels %= classes
        super().__init__(labels, numbered(classes), image_shape[2], image_shape)
        self._shape, self._half = image_shape, half
        self._fields = _fields(classes, image_shape[2])
        self._edges = [np.arange(_GRID + 1) * side // _GRID for side in image_shape[:2]]

    def picture(self, row: int) -> Pixels:
        """Computed into a new array."""
        found = np.empty(self._shape, np.uint8)
        self._write(row, found)
        return found

    def _write(self, row: int, out: Pixels) -> None:
        height, width, channels = self._shape
        words = _words(-(-out.size // 8), self._half, row)
        noise = words.view(np.uint8)[: out.size].reshape(height, width * channels)
        lines = out.reshape(height, width * channels)
        np.right_shift(noise, 1, out=lines)
        down, right = self._edges
        fields = np.repeat(self._fields[self.labels[row]], np.diff(right), axis=1)
        for line, begin, end in zip(fields, down, down[1:], strict=False):
            lines[begin:end] += line.reshape(-1)

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C)."""
        for row, picture in zip(rows.tolist(), out, strict=True):
            if picture.flags.c_contiguous:
                self._write(row, picture)
            else:
                picture[:] = self.picture(row)

    @property
    def held_bytes(self) -> int:
        """None."""
        return 0

    def picture_name(self, row: int) -> str:
        """Its number."""
        return f"random picture {row}"

    def contents(self) -> HalfContents:
        """By what they are computed from."""
        recipe = f"{_RECIPE} {self._half} {len(self)} {self._shape} {len(self.class_names)}"
        return contents_of_recipe(recipe, len(self), self._shape)


def load_random(
    image_shape: tuple[int, int, int], classes: int, train_images: int, test_images: int
) -> Halves:
    """Both halves, of pictures (H,W,C)."""
    train = RandomSource(train_images, image_shape, classes, 0)
    test = RandomSource(test_images, image_shape, classes, 1)
    return Halves("random", train, test, f"random pictures in {classes:,} classes, computed")


def _words(count: int, key: int, counter: int) -> npt.NDArray[np.uint64]:
    stream = np.random.Philox(key=key, counter=[0, 0, 0, counter])
    words = np.asarray(stream.random_raw(count), np.uint64)
    return words.astype("<u8", copy=False)


def _fields(classes: int, channels: int) -> npt.NDArray[np.uint8]:
    """What each class adds to each field, (classes, _GRID, _GRID, C)."""
    words = _words(classes * channels, 2, 0)  # more than enough, and the same for fewer classes
    bits = np.unpackbits(words.view(np.uint8).reshape(classes, -1), axis=1)
    few = bits[:, : _GRID * _GRID * channels].reshape(classes, _GRID, _GRID, channels)
    found: npt.NDArray[np.uint8] = np.where(few, np.uint8(_LIGHT), np.uint8(_DARK))
    return found
