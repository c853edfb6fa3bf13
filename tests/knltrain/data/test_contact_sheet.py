from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from knltrain.data.contact_sheet import contact_sheet
from knltrain.data.contents import HalfContents, contents_of
from knltrain.data.source import ArraySource, ImageSource, Pixels
from knltrain.errors import BrokenPicture

RED, GREEN = (255, 0, 0), (0, 255, 0)


def drawn(source: ImageSource) -> Image.Image:
    return Image.open(BytesIO(contact_sheet(source))).convert("RGB")


def coloured(labels: list[int], shape: tuple[int, int], classes: int) -> ArraySource:
    """Red pictures of class 0, green ones of all others."""
    colours = np.array([GREEN if label else RED for label in labels], np.uint8)
    pixels = np.ascontiguousarray(np.broadcast_to(colours[:, None, None], (len(labels), *shape, 3)))
    values = np.array(labels)
    names = tuple(f"class {number}" for number in range(classes))
    return ArraySource(pixels, values, names, contents_of(pixels, values), "here")


@pytest.mark.parametrize("shape", [(28, 28), (200, 300), (64, 2)])
def test_each_class_has_a_line_of_its_pictures(shape: tuple[int, int]) -> None:
    sheet = drawn(coloured([1, 0, 1, 0, 1], shape, 3))
    third = sheet.height // 3
    parts = [
        np.asarray(sheet.crop((0, number * third, sheet.width, (number + 1) * third)))
        for number in range(3)
    ]
    reds, greens = (
        [(part == colour).all(axis=2).sum() for part in parts] for colour in (RED, GREEN)
    )
    assert reds[0] > 0 == reds[1] == reds[2]
    assert greens[1] > 0 == greens[0] == greens[2]
    assert greens[1] * 2 == reds[0] * 3
    assert all((part < 100).all(axis=2).any() for part in parts)  # their names


@pytest.mark.parametrize("classes", [1, 2, 26, 101, 1001])
def test_sheets_of_many_classes_stay_small(classes: int) -> None:
    sheet = drawn(coloured(list(range(classes)), (8, 8), classes))
    assert max(sheet.size) <= 3000


def test_grey_pictures_targets_and_broken_ones_are_drawn() -> None:
    class Source(ImageSource):
        def picture(self, row: int) -> Pixels:
            if row == 0:
                raise BrokenPicture("broken")
            return np.full((20, 30, 1), 77, np.uint8)

        @property
        def held_bytes(self) -> int:
            return 0

        def picture_name(self, row: int) -> str:
            return ""

        def contents(self) -> HalfContents:
            raise NotImplementedError

    targets = np.array([[1, 1], [1, 0], [0, 0]], np.float32)
    pixels = np.asarray(drawn(Source(targets, ("a", "b"), 1)))
    assert (pixels == 77).all(axis=2).sum() == 40 * 60
