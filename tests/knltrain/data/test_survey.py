from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.contents import HalfContents, contents_of
from knltrain.data.encoded import SKIPPING
from knltrain.data.source import ArraySource, ImageSource, Pixels
from knltrain.data.survey import MOST_BROKEN, Range, survey
from knltrain.errors import BrokenPicture


class Mixed(ImageSource):
    """Pictures of growing sizes, of which every fifth is broken if asked for."""

    def __init__(self, images: int, every: int = 5) -> None:
        super().__init__(np.zeros(images, np.int64), ("a", "b"), 1)
        self._every = every

    def picture(self, row: int) -> Pixels:
        if row % self._every == 1:
            raise BrokenPicture(f"picture {row} is broken")
        return np.full((row + 1, 2 * row + 1, 1), row % 256, np.uint8)

    @property
    def held_bytes(self) -> int:
        return 0

    def picture_name(self, row: int) -> str:
        return f"picture {row}"

    def contents(self) -> HalfContents:
        raise NotImplementedError


def test_mean_and_deviation_are_those_of_all_values() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (150, 3, 4, 3), np.uint8)
    labels = np.arange(150) % 4
    source = ArraySource(pixels, labels, tuple("abcde"), contents_of(pixels, labels), "here")
    done: list[int] = []
    found = survey(source, done.append)
    np.testing.assert_allclose(found.mean, pixels.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(found.deviation, pixels.std(axis=(0, 1, 2)))
    assert (found.images, found.channels, found.counts) == (150, 3, (38, 38, 37, 37, 0))
    assert (found.height, found.width) == (Range(3, 3, 3), Range(4, 4, 4))
    assert (found.broken, found.broken_pictures) == (0, ())
    assert sum(done) == 150


def test_sizes_differ_and_broken_pictures_are_named() -> None:
    found = survey(Mixed(9))
    assert found.height == Range(1, 5, 9)
    assert found.width == Range(1, 9, 17)
    assert (found.broken, found.broken_pictures) == (
        2,
        ("picture 1 is broken", "picture 6 is broken"),
    )
    assert str(found.width) == "1 to 17 (median 9)"
    many = survey(Mixed(100, every=2))
    assert (many.broken, len(many.broken_pictures)) == (50, MOST_BROKEN)


def test_a_half_without_a_good_picture_is_refused() -> None:
    class Broken(Mixed):
        def picture(self, row: int) -> Pixels:
            raise BrokenPicture(f"picture {row} is broken{SKIPPING}")

    with pytest.raises(BrokenPicture, match=r"all 9 pictures .* such as picture 0 is broken$"):
        survey(Broken(9))
