"""Files that vanish or change while a run reads them are told of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.picture_files import PictureFiles
from knltrain.data.readers.texts import Texts
from knltrain.errors import DataError


def files(folder: Path) -> PictureFiles:
    for name in ("0", "1", "2"):
        (folder / name).write_text(name * 4)
    return PictureFiles(folder, Texts.of(["0", "1", "2"]), np.full(3, 4))


def test_files_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    found = files(tmp_path)
    assert (found.data(1), found.name(1)) == (b"1111", f"{tmp_path}/1")
    other = found.in_order(np.array([2, 0]))
    assert (other.data(0), other.name(1)) == (b"2222", f"{tmp_path}/0")
    assert other.listed() == found.listed()


def test_what_is_listed_tells_names_and_sizes(tmp_path: Path) -> None:
    names = Texts.of(["0", "1", "2"])
    digests = {
        files(tmp_path).listed(),
        PictureFiles(tmp_path, names, np.array([4, 4, 5])).listed(),
        PictureFiles(tmp_path, Texts.of(["01", "", "2"]), np.full(3, 4)).listed(),
    }
    assert len(digests) == 3


def test_a_file_that_vanished_is_told(tmp_path: Path) -> None:
    found = files(tmp_path)
    (tmp_path / "1").unlink()
    with pytest.raises(DataError, match=r"/1: is gone, but was there when the pictures were"):
        found.data(1)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    found = files(tmp_path)
    (tmp_path / "1").unlink()
    (tmp_path / "1").mkdir()
    with pytest.raises(DataError, match=r"/1: cannot be read \(Is a directory\): is the disk"):
        found.data(1)


def test_a_file_of_another_size_is_told_with_the_way_out(tmp_path: Path) -> None:
    found = files(tmp_path)
    assert found.still_there()
    (tmp_path / "1").write_text("11111")
    with pytest.raises(DataError, match=rf"no longer the 4 bytes .*anew: touch {tmp_path}$"):
        found.data(1)
    (tmp_path / "2").write_text("222")
    with pytest.raises(DataError, match=r"/2: has no longer the 4 bytes"):
        found.data(2)
    assert not found.still_there()
    (tmp_path / "1").unlink()
    assert not found.still_there()
