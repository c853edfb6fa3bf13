"""Pictures that are no plain JPEGs, decoded by Pillow: PNG, BMP, GIF, TIFF, WebP, PPM and the rest.

Pillow's own choice of a reader is left aside: it would start Ghostscript for PostScript, and its
limit of pixels holds for the whole process.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image

from knltrain.data.decoding import Encoded, broken, check_pixels, oriented
from knltrain.errors import BrokenPicture

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

    from knltrain.data.source import Pixels

_READERS: Final = {
    b"\xff\xd8\xff": "Jpeg",
    b"\x89PNG\r\n\x1a\n": "Png",
    b"BM": "Bmp",
    b"GIF8": "Gif",
    b"II*\0": "Tiff",
    b"MM\0*": "Tiff",
    b"RIFF": "WebP",
    **{b"P%d" % number: "Ppm" for number in range(1, 7)},
}
"""The class of Pillow that reads what begins so."""

_DAMAGED: Final[tuple[type[Exception], ...]] = (
    *(OSError, SyntaxError, ValueError, EOFError, struct.error, IndexError, KeyError, TypeError),
    *(AttributeError, ArithmeticError, AssertionError, MemoryError, NotImplementedError),
    Image.DecompressionBombError,
)
"""What Pillow's readers raise for damaged files."""

_ORIENTATION: Final = 0x0112
_SIXTEEN_BITS: Final = {"I;16", "I;16L", "I;16B", "I;16N"}


def decode_by_pillow(
    data: Encoded, channels: int, name: str, max_pixels: int, exif: bool
) -> Pixels:
    """The picture (H,W,C) of `data`; see `knltrain.data.decoding.decode`."""
    image = _opened(data, name)
    width, height = image.size
    check_pixels(height, width, max_pixels, name)
    try:
        turn = _turn(image) if exif else 1
        image.load()
        pixels = _pixels(image, channels, name)
    except _DAMAGED as error:
        raise BrokenPicture(broken(name, error)) from error
    return oriented(pixels, turn)


def size_by_pillow(data: Encoded, name: str) -> tuple[int, int]:
    """Height and width; see `knltrain.data.decoding.picture_size`."""
    width, height = _opened(data, name).size
    return height, width


def orientation(data: Encoded) -> int:
    """The EXIF orientation of a picture, 1 to 8; 1 where none can be read."""
    with suppress(BrokenPicture, *_DAMAGED):  # of which the decoder tells
        return _turn(_opened(data, ""))
    return 1


def _turn(image: ImageFile) -> int:
    found = image.getexif().get(_ORIENTATION, 1)
    return found if isinstance(found, int) else 1


def _opened(data: Encoded, name: str) -> ImageFile:
    begin = bytes(data[:8])
    reader = next((known for magic, known in _READERS.items() if begin.startswith(magic)), None)
    if reader is None:
        what = f"begins with 0x{begin.hex()}" if begin else "is empty"
        raise BrokenPicture(
            f"{name}: {what}: expected a picture in JPEG, PNG, BMP, GIF, TIFF, WebP or PPM; convert"
            " or remove it"
        )
    module: Any = import_module(f"PIL.{reader}ImagePlugin")
    try:
        image: ImageFile = getattr(module, f"{reader}ImageFile")(BytesIO(data), name)
    except _DAMAGED as error:
        raise BrokenPicture(broken(name, error)) from error
    return image


def _pixels(image: ImageFile, channels: int, name: str) -> Pixels:
    mode, found = image.mode, image.convert  # of the first frame
    if mode in _SIXTEEN_BITS or (mode == "I" and image.format in ("PNG", "PPM")):
        # Pillow's own conversion clips at 255.
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return np.repeat(grey[..., None], channels, axis=2)
    if mode[0] in "IF":
        raise BrokenPicture(
            f"{name}: its values have 32 bits: expected 8 or 16 bits; convert or remove it"
        )
    if mode in ("P", "PA"):
        found = image.convert("RGBA").convert  # which knows all kinds of transparency
    elif mode not in ("1", "L", "LA", "La", "RGB"):
        found = image.convert("RGB").convert
    pixels = np.array(found("L" if channels == 1 else "RGB"))
    return pixels[..., None] if channels == 1 else pixels
