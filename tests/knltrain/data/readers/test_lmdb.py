from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from knltrain.data.encoded import DecodingRules
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.lmdb import open_lmdb
from knltrain.data.readers.parts import joined
from knltrain.data.source import SKIPPED
from knltrain.errors import BrokenPicture, DataError
from vectorized_ops.pictures import PicturesOf

from .written import check, datum, encoded_datum, pictures, varint, write_lmdb


def png(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_raw_pictures_are_views_in_order_of_their_keys(tmp_path: Path) -> None:
    pixels, labels = pictures(9)
    records = [datum(*pair) for pair in zip(pixels, labels.tolist(), strict=True)]
    write_lmdb(tmp_path / "ilsvrc12_train_lmdb", records)
    source = open_lmdb(DataFiles(tmp_path), "train")
    check(source, pixels, labels)
    assert source.image_shape == (5, 6, 3)
    assert not source.picture(1).flags.owndata
    assert source.held_bytes == 0
    assert source.picture_name(3).endswith("ilsvrc12_train_lmdb, key '00000003_x'")
    assert open_lmdb(DataFiles(tmp_path), "test") is None
    bgr = open_lmdb(DataFiles(tmp_path, channel_order="bgr"), "train")
    check(bgr, pixels[..., ::-1], labels)
    rows = np.array([7, 2, 2, 8])
    for _ in range(2):  # looked up, and known
        for turned, each in ((source, pixels), (bgr, pixels[..., ::-1])):
            found = turned.pictures_of(rows)
            assert isinstance(found, PicturesOf)
            np.testing.assert_array_equal(np.stack(found), each[rows])
            assert not found[0].flags.writeable
    assert bgr.contents() != source.contents()


def test_encoded_pictures_are_decoded(tmp_path: Path) -> None:
    pixels, labels = pictures(5)
    records = [encoded_datum(png(each), label) for each, label in zip(pixels, labels.tolist())]  # noqa: B905
    write_lmdb(tmp_path / "train_db", records)
    source = open_lmdb(DataFiles(tmp_path), "train")
    check(source, pixels, labels)
    assert source.image_shape is None
    grey = open_lmdb(DataFiles(tmp_path, channels=1), "train")
    assert grey.picture(0).shape == (5, 6, 1)


def test_pictures_of_other_sizes_and_grey_ones_are_read(tmp_path: Path) -> None:
    grey, _ = pictures(2, channels=1)
    write_lmdb(tmp_path / "train_lmdb", [datum(grey[0], 0), datum(grey[1, :3], 1)])
    source = open_lmdb(DataFiles(tmp_path, channel_order="bgr"), "train")
    assert (source.image_shape, source.channels) == (None, 1)
    np.testing.assert_array_equal(source.picture(1), grey[1, :3])


def test_a_picture_with_too_few_bytes_is_broken_and_the_others_are_read(tmp_path: Path) -> None:
    pixels, _ = pictures(3)
    cut = datum(pixels[1], 1).replace(varint(90), varint(88))  # 88 of 90 bytes, 2 left over
    begin = cut.index(varint(4 << 3 | 2)) + 2
    cut = cut[: begin + 88] + cut[begin + 90 :]
    write_lmdb(tmp_path / "train_lmdb", [datum(pixels[0], 0), cut, datum(pixels[2], 2)])
    source = open_lmdb(DataFiles(tmp_path), "train")
    assert source.labels.tolist() == [0, 1, 2]
    assert source.image_shape == (5, 6, 3)
    np.testing.assert_array_equal(source.picture(2), pixels[2])
    with pytest.raises(BrokenPicture, match=r"key '00000001_x': has 88 bytes for .*\(3, 5, 6\)"):
        source.picture(1)
    with pytest.raises(BrokenPicture, match="88 bytes"):
        source.pictures_of(np.array([0, 1]))
    np.testing.assert_array_equal(source.pictures_of(np.array([0, 2]))[1], pixels[2])
    with pytest.raises(BrokenPicture, match=r"88 bytes .*remove it, or set data.broken = 'skip'"):
        source.chosen(np.array([2, 1])).picture(1)


def test_the_next_whole_picture_with_its_label_takes_the_place_of_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SKIPPED, "reasons", {})
    pixels, _ = pictures(6)
    labels = [0, 1, 1, 0, 1, 2]
    records = [datum(*pair) for pair in zip(pixels, labels, strict=True)]
    for row in (1, 2, 5):
        shape = b"".join(varint(each) for each in (1 << 3, 3, 2 << 3, 5, 3 << 3, 7))
        records[row] += shape  # the last of equal fields counts: 7 pixels wide
    write_lmdb(tmp_path / "train_lmdb", records)
    files = DataFiles(tmp_path, decoding=DecodingRules(skip=True))
    source = open_lmdb(files, "train")
    rows = np.array([2, 0, 1])
    for _ in range(2):
        assert np.array_equal(np.stack(source.pictures_of(rows)), pixels[[4, 0, 4]])
    out = np.empty((3, 5, 6, 3), np.uint8)
    source.read(rows, out)
    assert np.array_equal(out, pixels[[4, 0, 4]])
    assert [name.rpartition(" ")[2] for name in SKIPPED.reasons] == ["'00000002_x'", "'00000001_x'"]
    assert "has 90 bytes for (C, H, W) = (3, 5, 7)" in str(SKIPPED)
    with pytest.raises(BrokenPicture, match=r"'00000005_x': .* none of the 0 next pictures"):
        source.picture(5)
    # Of what is chosen, only that: 4 is in the other half.
    some = source.chosen(np.array([1, 2, 3]))
    assert (some.image_shape, some.labels.tolist()) == ((5, 6, 3), [1, 1, 0])
    assert np.array_equal(some.chosen(np.array([2])).picture(0), pixels[3])
    assert some.picture_name(0) == source.picture_name(1)
    with pytest.raises(BrokenPicture, match="none of the 1 next pictures"):
        some.pictures_of(np.array([2, 0]))
    twice = joined([source, source]).chosen(np.array([1, 10]))
    with pytest.raises(BrokenPicture, match="none of the 0 next pictures"):
        twice.picture(0)


def records_of(kind: str) -> list[bytes]:
    pixels, _ = pictures(2)
    whole = datum(pixels[0], 0)
    return {
        "empty": [],
        "no message": [whole, b"\x0b"],
        "floats": [whole, b"\x35" + bytes(4)],
        "mixed": [whole, encoded_datum(b"x", 0)],
        "channels": [datum(np.zeros((5, 6, 4), np.uint8), 0)],
        "label": [whole, datum(pixels[1], 2**64 - 1)],
    }[kind]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("empty", "this LMDB is empty"),
        ("no message", r"key '00000001_x': no Datum of Caffe's \(a field of type 3"),
        ("floats", r"key '00000001_x': no Datum .*floats, features"),
        ("mixed", "pictures have encoded and 3 channels"),
        ("channels", "pictures have 4 channels: expected 1 or 3"),
        ("label", "label -1 at index 1 is no class"),
    ],
)
def test_other_databases_are_refused(tmp_path: Path, kind: str, message: str) -> None:
    write_lmdb(tmp_path / "train_lmdb", records_of(kind))
    with pytest.raises(DataError, match=message):
        open_lmdb(DataFiles(tmp_path), "train")
