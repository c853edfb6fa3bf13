from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.encoded import DecodingRules, EncodedSource
from knltrain.data.packed_records import StoredAs
from knltrain.data.readers.packed import load_packed
from knltrain.data.source import ArraySource
from knltrain.errors import BrokenPicture, DataError

from ..packed import encoded_halves, packed, raw_halves
from .written import check


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("targets", [False, True])
def test_raw_pictures_are_mapped(tmp_path: Path, channels: int, targets: bool) -> None:
    halves = raw_halves(channels, targets)
    found = load_packed(packed(tmp_path / "a.pack", halves))
    for mine, theirs in ((found.train, halves.train), (found.test, halves.test)):
        assert isinstance(mine, ArraySource)
        assert isinstance(theirs, ArraySource)
        check(mine, theirs.pixels, theirs.labels)
        assert mine.held_bytes == 0
        assert mine.labels.dtype == theirs.labels.dtype
        assert np.shares_memory(mine.picture(1), mine.pixels)
    assert found.contents.same_as(halves.contents)
    assert found.train.class_names == halves.train.class_names
    assert found.description == f"pictures of a test, packed in {tmp_path}/a.pack"


def test_encoded_pictures_keep_their_bytes(tmp_path: Path) -> None:
    halves = encoded_halves(tmp_path / "pictures")
    found = load_packed(packed(tmp_path / "a.pack", halves))
    for mine, theirs in ((found.train, halves.train), (found.test, halves.test)):
        assert isinstance(mine, EncodedSource)
        for row in range(len(theirs)):
            assert mine.encoded(row) == theirs.encoded(row)
    assert found.contents.same_as(halves.contents)
    assert found.train.class_names == ("cat", "dog")
    assert found.train.picture_name(3) == f"{tmp_path}/a.pack, training half, image 3"


def test_only_the_first_pictures_are_taken(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pack", raw_halves())
    found = load_packed(path, train_images=5, test_images=2)
    assert (len(found.train), len(found.test)) == (5, 2)
    with pytest.raises(DataError, match=r"data.train_images = 38, but packed holds 37"):
        load_packed(path, train_images=38)


def test_grey_is_decoded_of_encoded_pictures_only(tmp_path: Path) -> None:
    encoded = packed(tmp_path / "a.pack", encoded_halves(tmp_path / "pictures"))
    assert load_packed(encoded, channels=1).train.picture(0).shape == (20, 40, 1)
    raw = packed(tmp_path / "b.pack", raw_halves())
    with pytest.raises(DataError, match=r"data.channels = 1: the pictures of .* are raw, of 3"):
        load_packed(raw, channels=1)


def test_pictures_packed_grey_are_grey(tmp_path: Path) -> None:
    halves = encoded_halves(tmp_path / "pictures", channels=1)
    for number, stored in enumerate((StoredAs(), StoredAs(short_side=16))):
        path = packed(tmp_path / f"{number}.pack", halves, stored)
        assert load_packed(path).train.picture(9).shape[2] == 1


def test_a_damaged_picture_is_skipped_or_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pack", encoded_halves(tmp_path / "pictures"))
    content = bytearray(path.read_bytes())
    content[4096:4098] = b"no"
    path.write_bytes(content)
    with pytest.raises(BrokenPicture, match=r"a.pack, training half, image 0: begins with"):
        load_packed(path).train.picture(0)
    skipping = load_packed(path, rules=replace(DecodingRules(), skip=True)).train
    np.testing.assert_array_equal(skipping.picture(0), skipping.picture(2))


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.pack': cannot be read \(No such file"):
        load_packed(tmp_path / "a.pack")
