from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers import lmdb_index
from knltrain.data.readers.lmdb_index import open_index
from knltrain.errors import DataError

from .written import datum, encoded_datum, pictures, write_lmdb


@pytest.fixture
def path(tmp_path: Path, home: Path) -> Path:
    """An LMDB that was written long ago."""
    pixels, labels = pictures(6)
    records = [datum(*pair) for pair in zip(pixels, labels.tolist(), strict=True)]
    write_lmdb(tmp_path / "train_lmdb", [*records, encoded_datum(b"jpeg", 9)])
    os.utime(tmp_path / "train_lmdb/data.mdb", (1e9, 1e9))
    return tmp_path / "train_lmdb"


def test_records_are_told_but_not_copied(path: Path) -> None:
    index, (pixels, _) = open_index(path), pictures(6)
    assert len(index) == 7
    assert index.labels.tolist() == [0, 1, 2, 3, 0, 1, 9]
    assert index.shapes[5:].tolist() == [[3, 5, 6], [0, 0, 0]]
    assert index.name(6) == f"{path}, key '00000006_x'"
    assert bytes(index.data(4)) == pixels[4].transpose(2, 0, 1).tobytes()
    assert bytes(index.data(6)) == b"jpeg"
    assert index.is_whole().all()


def test_the_next_start_remembers_them_unless_the_file_has_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[Path] = []
    scan = lmdb_index.scanned
    monkeypatch.setattr(
        lmdb_index, "scanned", lambda path, place: (scans.append(path), scan(path, place))[1]
    )
    first, again = open_index(path), open_index(path)
    assert len(scans) == 1
    assert (first.keys, again.name(6)) == (again.keys, first.name(6))
    for name in ("ends", "labels", "places", "shapes", "offsets"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    os.utime(path / "data.mdb", (2e9, 2e9))
    open_index(path)
    assert len(scans) == 2


def test_pictures_lie_where_the_index_says(path: Path) -> None:
    index, rows = open_index(path), np.array([6, 2, 2, 0])
    for address, row in zip(index.addresses(rows).tolist(), rows.tolist(), strict=True):
        data = index.data(row)
        assert data is not None
        assert ctypes.string_at(address, len(data)) == bytes(data)


def test_an_index_whose_records_lie_elsewhere_is_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_index(path)
    wrong = {name: getattr(whole, name) for name in ("ends", "labels", "places", "shapes")}
    wrong |= {"keys": np.frombuffer(whole.keys, np.uint8), "offsets": whole.offsets + 8}
    monkeypatch.setattr(lmdb_index, "load_index", lambda _key: wrong)
    np.testing.assert_array_equal(open_index(path).offsets, whole.offsets)


def test_an_index_of_a_file_that_was_just_written_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(path / "data.mdb")
    kept: list[str] = []
    monkeypatch.setattr(lmdb_index, "save_index", lambda key, _arrays: kept.append(key))
    open_index(path)
    assert kept == []


def test_a_truncated_file_is_refused_whatever_is_remembered(path: Path) -> None:
    file = path / "data.mdb"
    os.truncate(file, file.stat().st_size - 4096)
    with pytest.raises(DataError, match="truncated"):
        open_index(path)
