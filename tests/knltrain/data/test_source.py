"""Sources of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.contents import contents_of_recipe
from knltrain.data.dataset import numbered
from knltrain.data.derived import Selection
from knltrain.data.source import ArraySource
from knltrain.errors import DataError
from tests.knltrain.data.given import source_of

PIXELS = np.arange(5 * 4, dtype=np.uint8).reshape(5, 2, 2, 1)


def test_pictures_of_an_array_are_views_of_it() -> None:
    source = source_of(PIXELS, np.arange(5))
    assert np.shares_memory(source.picture(3), PIXELS)
    out = np.empty((2, 2, 2, 1), np.uint8)
    source.read(np.array([4, 0]), out)
    assert np.array_equal(out, PIXELS[[4, 0]])
    assert (source.channels, source.image_shape, len(source)) == (1, (2, 2, 1), 5)
    assert source.picture_name(3) == "given, image 3"


def test_pictures_in_mapped_files_take_none_of_the_process_s_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", PIXELS)
    mapped = np.load(tmp_path / "pictures.npy", mmap_mode="r")
    assert source_of(mapped[1:], np.arange(4)).held_bytes == 0
    assert source_of(PIXELS[1:], np.arange(4)).held_bytes == 16


def test_selection_is_some_pictures_in_an_order_of_its_own() -> None:
    source = source_of(PIXELS, np.arange(5))
    some = Selection(source, np.array([3, 1]))
    assert some.labels.tolist() == [3, 1]
    assert np.array_equal(some.picture(0), PIXELS[3])
    out = np.empty((2, 2, 2, 1), np.uint8)
    some.read(np.array([1, 0]), out)
    assert np.array_equal(out, PIXELS[[1, 3]])
    assert some.picture_name(1) == "given, image 1"
    assert some.held_bytes == source.held_bytes
    assert some.size() == source.size() == (2, 2)
    assert np.array_equal(source.chosen(np.array([3, 1])).picture(0), PIXELS[3])
    other = Selection(source, np.array([1, 3])).contents()
    assert some.contents() == Selection(source, np.array([3, 1])).contents() != other


def test_a_half_without_images_and_labels_that_do_not_fit_are_refused() -> None:
    contents = contents_of_recipe("none", 0, (2, 2, 1))
    with pytest.raises(DataError, match="there are no images"):
        ArraySource(PIXELS[:0], np.arange(0), numbered(2), contents, "none")
    with pytest.raises(DataError, match="some file: 5 images have 4 labels"):
        ArraySource(PIXELS, np.arange(4), numbered(4), contents, "some file")
