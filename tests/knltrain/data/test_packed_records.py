from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from knltrain.data.decoding import decode
from knltrain.data.packed_records import Records, StoredAs
from knltrain.data.readers.parts import joined
from knltrain.errors import DataError
from vectorized_ops.numba.pictures import PicturePass as CompiledPass
from vectorized_ops.reference.pictures import PicturePass, resized

from .packed import encoded_halves, raw_halves


def test_the_short_side_is_resized_and_smaller_pictures_are_kept(tmp_path: Path) -> None:
    source = encoded_halves(tmp_path).train
    stored = StoredAs(short_side=30)
    records = Records(source, stored, PicturePass)
    sizes = [source.picture(row).shape[:2] for row in range(len(source))]
    for row, (height, width) in enumerate(sizes):
        found = records.record(row)
        if min(height, width) <= 30:
            assert found == source.encoded(row)
            continue
        picture = decode(found, 3, "found")
        assert min(picture.shape[:2]) == 30
        box = np.array([0.0, 0, height, width])
        expected = resized(source.picture(row), box, picture.shape[:2])
        assert np.abs(picture - expected).mean() < 8
    assert {min(size) <= 30 for size in sizes} == {True, False}
    assert stored.contents(source) != source.contents()
    assert stored.contents(source) != StoredAs(short_side=31).contents(source)


def test_the_quality_is_as_asked(tmp_path: Path) -> None:
    source = encoded_halves(tmp_path).train
    sizes = [
        len(Records(source, StoredAs(20, None, quality), PicturePass).record(9))
        for quality in (20, 60, 95)
    ]
    assert sizes == sorted(set(sizes))


def test_squares_are_the_middle_rounded(tmp_path: Path) -> None:
    source = encoded_halves(tmp_path).train
    records = Records(source, StoredAs(side=16), PicturePass)
    assert records.image_shape == (16, 16, 3)
    height, width, _ = source.picture(0).shape
    box = np.array([0.0, (width - height) / 2, height, height])
    expected = np.rint(resized(source.picture(0), box, (16, 16))).astype(np.uint8)
    found = np.frombuffer(records.record(0), np.uint8).reshape(16, 16, 3)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stored", [StoredAs(side=16), StoredAs(short_side=16)])
def test_all_implementations_make_the_same_bytes(tmp_path: Path, stored: StoredAs) -> None:
    source = encoded_halves(tmp_path).train
    one, other = (Records(source, stored, each) for each in (PicturePass, CompiledPass))
    assert [one.record(row) for row in (0, 9)] == [other.record(row) for row in (0, 9)]


def test_raw_pictures_may_become_jpegs() -> None:
    source = raw_halves(channels=1, shape=(40, 50)).train
    found = Records(source, StoredAs(short_side=20), PicturePass).record(0)
    height, width, space, _ = simplejpeg.decode_jpeg_header(bytes(found))
    assert (height, width, space) == (20, 25, "Gray")


def test_joined_and_chosen_pictures_are_encoded_ones(tmp_path: Path) -> None:
    source = encoded_halves(tmp_path).train
    rows = np.array([4, 2])
    assert source.chosen(rows).encoded(0) == source.encoded(4)
    assert joined([source, source]).encoded(12) == source.encoded(2)


def test_raw_pictures_of_several_sizes_are_refused() -> None:
    source = raw_halves().train
    source.image_shape = None
    with pytest.raises(DataError, match="raw pictures differ in size"):
        Records(source, StoredAs(), PicturePass).record(0)


def test_squares_of_too_many_pixels_are_refused() -> None:
    with pytest.raises(DataError, match=r"--side 60000: a picture would have 3,600,000,000 pixels"):
        StoredAs(side=60_000).image_shape(raw_halves().train)
