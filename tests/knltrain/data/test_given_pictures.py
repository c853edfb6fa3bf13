"""Pictures given as files, bytes and arrays become pixels of a model's channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from knltrain.data.given_pictures import GivenPictures, name_of, pixels_of
from knltrain.errors import BrokenPicture, DataError

from .pictures import by_pillow, texture

PICTURE = texture(20, 30)


def test_files_bytes_and_arrays_are_the_same_pixels(tmp_path: Path) -> None:
    data = by_pillow(Image.fromarray(PICTURE), "PNG")
    path = tmp_path / "a.png"
    path.write_bytes(data)
    for given in (path, str(path), data, bytearray(data), memoryview(data), PICTURE):
        for channels in (1, 3):
            found = pixels_of(given, channels, "a")
            expected = pixels_of(path, channels, "a")
            np.testing.assert_array_equal(found, expected)
            assert found.shape == (20, 30, channels)


def test_grey_arrays_become_colours_and_stay_grey() -> None:
    grey = PICTURE[..., 0]
    assert np.array_equal(pixels_of(grey, 1, "a"), grey[..., None])
    assert np.array_equal(pixels_of(grey, 3, "a"), np.stack([grey] * 3, axis=2))
    assert np.array_equal(pixels_of(grey[..., None], 3, "a"), np.stack([grey] * 3, axis=2))


def test_pictures_are_turned_if_the_model_was_trained_so() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = by_pillow(Image.fromarray(PICTURE), "JPEG", exif=exif)
    assert pixels_of(data, 3, "a").shape == (20, 30, 3)
    assert pixels_of(data, 3, "a", exif=True).shape == (30, 20, 3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((4, 4, 4), np.uint8), r"uint8 \(4, 4, 4\): expected uint8"),
        (np.zeros((4, 4, 3), np.float32), "float32"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        (np.zeros(4, np.uint8), r"\(4,\)"),
        ("/nowhere/a.png", "cannot be read"),
        ("a\0.png", "cannot be read"),
        ("/", "cannot be read"),
        ("a" * 300, "cannot be read"),
        ("/dev/zero", "it is a device"),
        (b"", "is empty"),
        (b"no picture", "expected a picture in JPEG"),
    ],
)
def test_what_is_no_picture_is_told_with_its_name(given: Any, said: str) -> None:
    with pytest.raises(BrokenPicture, match=rf"^the name: .*{said}"):
        pixels_of(given, 3, "the name")


def test_other_things_are_errors_of_the_program() -> None:
    wrong: Any = 7
    with pytest.raises(DataError, match="the name: a int: expected a path") as found:
        pixels_of(wrong, 3, "the name")
    assert not isinstance(found.value, BrokenPicture)


def test_names_are_paths_or_numbers() -> None:
    assert name_of(Path("a/b.png"), 3) == "a/b.png"
    assert name_of(b"", 3) == name_of(PICTURE, 3) == "picture 3"


def test_they_are_a_source_without_classes() -> None:
    source = GivenPictures([PICTURE, PICTURE[:4]], 3)
    assert len(source) == 2
    assert source.picture(1).shape == (4, 30, 3)
    assert source.held_bytes == PICTURE.nbytes + PICTURE[:4].nbytes
    assert source.picture_name(1) == "picture 1"
    assert source.contents() == GivenPictures([PICTURE.copy(), PICTURE[:4]], 3).contents()
    assert source.contents() != GivenPictures([PICTURE, PICTURE[:5]], 3).contents()
