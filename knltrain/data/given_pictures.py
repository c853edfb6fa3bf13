"""Pictures that are given one by one, of any size: files, encoded bytes, or arrays of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, contents_of_recipe
from knltrain.data.decoding import decode
from knltrain.data.source import ImageSource, Pixels
from knltrain.errors import BrokenPicture, DataError
from knltrain.files.durable import reason_of
from knltrain.files.regular import content_of

Picture: TypeAlias = str | PathLike[str] | bytes | bytearray | memoryview | npt.NDArray[np.uint8]
"""A file, its content, or pixels uint8 (H,W), (H,W,1) or (H,W,3) of red, green, blue."""

_LUMA = (19595, 38470, 7471)
"""Rec. 601, of 65,536; as Pillow computes grey."""


@final
class GivenPictures(ImageSource):
    """Pictures (H,W,C) in memory, without classes: all labels are 0."""

    def __init__(self, pictures: Sequence[Pixels], channels: int) -> None:
        super().__init__(np.zeros(len(pictures), np.int64), (), channels)
        self._pictures = pictures

    def picture(self, row: int) -> Pixels:
        """As given."""
        return self._pictures[row]

    @property
    def held_bytes(self) -> int:
        """All."""
        return sum(picture.nbytes for picture in self._pictures)

    def picture_name(self, row: int) -> str:
        """Its number."""
        return f"picture {row}"

    def contents(self) -> HalfContents:
        """Of all pixels."""
        digests = [xxh3_128(np.ascontiguousarray(each).data).hexdigest() for each in self._pictures]
        return contents_of_recipe(" ".join(digests), len(self), (0, 0, self.channels))


def name_of(picture: Picture, number: int) -> str:
    """The path of a file; else the picture's number, from 0."""
    return str(picture) if isinstance(picture, str | PathLike) else f"picture {number}"


def pixels_of(picture: Picture, channels: int, name: str, exif: bool = False) -> Pixels:
    """The pixels (H,W,C) with `channels` 1 (grey) or 3 (red, green, blue).

    Raises BrokenPicture, with `name`, for a file that cannot be read, what cannot be decoded, and
    arrays of other shapes and types.
    """
    if isinstance(picture, np.ndarray):
        return _in_channels(_checked(picture, name), channels)
    if isinstance(picture, str | PathLike):
        try:
            picture = content_of(Path(picture))
        except (OSError, ValueError) as error:  # ValueError: a null byte in its name
            why = reason_of(error) if isinstance(error, OSError) else error
            raise BrokenPicture(
                f"{name}: cannot be read ({why}): expected a file with a picture"
            ) from error
    if not isinstance(picture, bytes | bytearray | memoryview):
        raise DataError(
            f"{name}: a {type(picture).__name__}: expected a path, the bytes of a file, or an array"
        )
    return decode(bytes(picture), channels, name, exif=exif)


def _checked(array: npt.NDArray[np.uint8], name: str) -> Pixels:
    pixels = array[..., None] if array.ndim == 2 else array
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise BrokenPicture(
            f"{name}: an array {array.dtype} {array.shape}: expected uint8, 0 to 255, of shape "
            "(H, W), (H, W, 1) or (H, W, 3)"
        )
    if not pixels.size:
        raise BrokenPicture(f"{name}: an array {array.shape}: expected at least one pixel")
    return pixels


def _in_channels(pixels: Pixels, channels: int) -> Pixels:
    if pixels.shape[2] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=2)
    luma = (pixels.astype(np.uint32) @ np.array(_LUMA, np.uint32) + 0x8000) >> 16
    found: Pixels = luma.astype(np.uint8)[..., None]
    return found
