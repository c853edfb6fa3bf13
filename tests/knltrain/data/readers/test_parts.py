from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.contents import contents_of
from knltrain.data.readers.parts import Joined, joined
from knltrain.data.source import ArraySource
from knltrain.errors import DataError

from .written import check, pictures


def source(pixels: np.ndarray, labels: np.ndarray, name: str) -> ArraySource:
    return ArraySource(pixels, labels, ("a", "b"), contents_of(pixels, labels), name)


def test_sources_follow_each_other() -> None:
    pixels, labels = pictures(10)
    parts = [source(pixels[:3], labels[:3], "one"), source(pixels[3:], labels[3:], "two")]
    whole = joined(parts)
    check(whole, pixels, labels)
    assert whole.picture_name(2) == "one, image 2"
    assert whole.picture_name(3) == "two, image 0"
    assert whole.held_bytes == pixels.nbytes
    with pytest.raises(IndexError):
        whole.picture(10)
    assert joined(parts[:1]) is parts[0]


def test_contents_tell_order_and_pictures_apart() -> None:
    pixels, labels = pictures(6)
    one, two = source(pixels[:3], labels[:3], "one"), source(pixels[3:], labels[3:], "two")
    found = Joined([one, two]).contents()
    assert (found.images, found.image_shape) == (6, (5, 6, 3))
    assert found == Joined([one, two]).contents() != Joined([two, one]).contents()


def test_sources_of_other_shapes_are_refused() -> None:
    (colours, labels), (grey, _) = pictures(3), pictures(3, channels=1)
    with pytest.raises(
        DataError, match=r"two, image 0: .*\(5, 6, 1\).* one, image 0 .*\(5, 6, 3\)"
    ):
        Joined([source(colours, labels, "one"), source(grey, labels, "two")])
