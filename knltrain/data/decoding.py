"""Encoded pictures into bytes of red, green and blue, or of grey.

JPEGs are decoded by libjpeg-turbo (simplejpeg), all other formats by Pillow. What a picture is, its
first bytes say, not the name of its file. Both let go of Python's lock, so threads decode at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import simplejpeg

from knltrain.errors import BrokenPicture

if TYPE_CHECKING:
    from knltrain.data.source import Pixels

Encoded: TypeAlias = bytes | memoryview

MAX_PIXELS: Final = 89_478_485
"""Of a picture: as many as Pillow takes without a warning of a decompression bomb."""

_JPEG: Final = b"\xff\xd8\xff"
_SPACES: Final = {1: "GRAY", 3: "RGB"}

_SIDES_SWAPPED: Final = 5
"""EXIF orientations from this one on exchange height and width."""


def decode(
    data: Encoded,
    channels: int,
    name: str,
    *,
    least: tuple[int, int] | None = None,
    buffer: Pixels | None = None,
    max_pixels: int = MAX_PIXELS,
    exif: bool = False,
) -> Pixels:
    """The picture (H,W,C) of `data`, with `channels` 1 (grey) or 3 (red, green, blue).

    Grey is the luma of Rec. 601, 0.299 R + 0.587 G + 0.114 B: as a JPEG stores it, computed from
    the colours of other files. Transparency is dropped, palettes are resolved, of 16 bits the upper
    8 are kept, of several frames the first.

    - `least` (h,w): a JPEG may be decoded at 1/2, 3/8, 1/4 or 1/8 of its size, the smallest that
      has at least h rows and w columns. Frequencies above are left out, so nothing is aliased. A
      picture is never smaller than `least` unless it is so itself; other formats keep their size.
    - `buffer`, uint8, contiguous and writable: where the pixels fit, they may be written to its
      begin, and the result is a view of it. That saves fetching pages of new memory.
    - `max_pixels`: a larger picture is refused by its header, before memory is allocated for it.
    - `exif`: turn and flip the picture as its EXIF orientation asks; else that is ignored, as
      training pipelines do.

    Raises BrokenPicture, with `name`, if the data are damaged or truncated, or no known format.
    """
    size = _jpeg_size(data)
    if size is None:
        from knltrain.data.pillow_decoding import decode_by_pillow

        return decode_by_pillow(data, channels, name, max_pixels, exif)
    check_pixels(*size, max_pixels, name)
    turn = _orientation(data) if exif else 1
    height, width = least or (0, 0)
    if turn >= _SIDES_SWAPPED:
        height, width = width, height
    if least:
        size = simplejpeg.decode_jpeg_header(data, height, width, 2)[:2]
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            data,
            _SPACES[channels],
            min_height=height,
            min_width=width,
            min_factor=2 if least else 1,
            buffer=_room(buffer, size, channels),
        )
    except ValueError as error:
        raise BrokenPicture(broken(name, error)) from error
    return oriented(pixels, turn)


def picture_size(data: Encoded, name: str, exif: bool = False) -> tuple[int, int]:
    """Height and width by the header alone; with `exif` as its orientation asks for it.

    Raises BrokenPicture where there is none.
    """
    size = _jpeg_size(data)
    if size is None:
        from knltrain.data.pillow_decoding import size_by_pillow

        size = size_by_pillow(data, name)
    return size[::-1] if exif and _orientation(data) >= _SIDES_SWAPPED else size


def is_jpeg(data: Encoded) -> bool:
    """By the first bytes."""
    return bytes(data[: len(_JPEG)]) == _JPEG


def check_pixels(height: int, width: int, most: int, name: str) -> None:
    """Refuse a picture of more than `most` pixels: BrokenPicture."""
    if height * width > most:
        raise BrokenPicture(
            f"{name}: its header tells of {height:,} x {width:,} pixels, expected at most {most:,} "
            "of both multiplied: make it smaller, or raise data.max_pixels"
        )


def broken(name: str, why: object) -> str:
    """The message about a picture that cannot be decoded."""
    return (
        f"{name}: cannot be decoded ({why}): expected a whole picture; fetch it again or remove it"
    )


def oriented(pixels: Pixels, turn: int) -> Pixels:
    """The picture (H,W,C) as the EXIF orientation `turn`, 1 to 8, asks for it (TIFF 6.0)."""
    if not 2 <= turn <= 8:
        return pixels
    if turn >= _SIDES_SWAPPED:
        pixels = pixels.swapaxes(0, 1)
    down = -1 if turn in (3, 4, 7, 8) else 1
    right = -1 if turn in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(pixels[::down, ::right])


def _jpeg_size(data: Encoded) -> tuple[int, int] | None:
    """Height and width of a JPEG; None if it is none, or one that simplejpeg does not know."""
    if not is_jpeg(data):
        return None
    try:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    except (ValueError, KeyError):  # a rare subsampling, or a damaged header: Pillow tells which
        return None
    return int(height), int(width)


def _orientation(data: Encoded) -> int:
    from knltrain.data.pillow_decoding import orientation

    return orientation(data)


def _room(buffer: Pixels | None, size: tuple[int, int], channels: int) -> Pixels | None:
    """The buffer, if a picture of that size fits."""
    needed = size[0] * size[1] * channels
    return None if buffer is None or buffer.nbytes < needed else buffer
