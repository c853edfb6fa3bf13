"""A contact sheet: small pictures of each class with its name, as a PNG."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from knltrain.data.source import ImageSource, Pixels
from knltrain.errors import BrokenPicture

MOST_CLASSES: Final = 1_000
"""Classes on a sheet: the first ones."""

_SIDE: Final = 64
"""Pixels of a small picture; smaller ones are enlarged by a whole number."""
_GAP: Final = 4
_TEXT: Final = 16
_LETTERS: Final = 0.125
"""Letters of a name that fit beside a pixel of width."""
_PICTURES_BY_CLASSES: Final = ((25, 12, 1), (100, 4, 4), (MOST_CLASSES, 1, 32))
"""For up to so many classes: pictures of each, and classes that stand side by side."""
_PAPER: Final = "white"
_INK: Final = "black"


def contact_sheet(source: ImageSource) -> bytes:
    """A PNG with the first pictures of every class that can be read, below the class's name."""
    classes = range(min(len(source.class_names), MOST_CLASSES))
    each, across = next(
        (each, across) for most, each, across in _PICTURES_BY_CLASSES if len(classes) <= most
    )
    width = each * (_SIDE + _GAP) + _GAP
    height = _TEXT + _SIDE + 2 * _GAP
    across = min(across, len(classes))
    down = -(-len(classes) // across)
    sheet = Image.new("RGB", (across * width, down * height), _PAPER)
    draw, font = ImageDraw.Draw(sheet), _font()
    for number in classes:
        left, top = number % across * width + _GAP, number // across * height + _GAP
        name = source.class_names[number][: max(4, int(width * _LETTERS))]
        draw.text((left, top), name, fill=_INK, font=font)
        for place, picture in enumerate(_pictures(source, number, each)):
            sheet.paste(_small(picture), (left + place * (_SIDE + _GAP), top + _TEXT))
    found = BytesIO()
    sheet.save(found, "PNG")
    return found.getvalue()


def _pictures(source: ImageSource, number: int, wanted: int) -> Iterator[Pixels]:
    found = 0
    for row in _rows(source, number).tolist():
        if found == wanted:
            return
        try:
            picture = source.picture(row)
        except BrokenPicture:
            continue
        found += 1
        yield picture


def _rows(source: ImageSource, number: int) -> npt.NDArray[np.int64]:
    of_class = (
        source.labels == number if source.labels.ndim == 1 else source.labels[:, number] > 0.5
    )
    return np.flatnonzero(of_class)


def _small(picture: Pixels) -> Image.Image:
    pixels = np.ascontiguousarray(picture[..., 0] if picture.shape[2] == 1 else picture)
    image = Image.fromarray(pixels)
    larger = max(image.size)
    if larger > _SIDE:
        image.thumbnail((_SIDE, _SIDE))
        return image
    times = _SIDE // larger
    return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)


def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """One with the letters of most languages."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
    try:
        return ImageFont.truetype(str(path), 11)
    except OSError:
        return ImageFont.load_default()
