"""Files are read at any place, and those that change or vanish are told of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knltrain.data.readers import open_files
from knltrain.data.readers.open_files import OpenFiles
from knltrain.errors import DataError


def files(folder: Path, count: int) -> OpenFiles:
    paths = [folder / f"{number}" for number in range(count)]
    for path in paths:
        path.write_bytes(b"%08d" % int(path.name))
    return OpenFiles(paths, [8] * count)


def descriptors(folder: Path) -> int:
    links = (path for path in Path("/proc/self/fd").iterdir())
    return sum(os.path.realpath(link).startswith(str(folder)) for link in links)


def test_any_place_is_read(tmp_path: Path) -> None:
    opened = files(tmp_path, 3)
    assert opened.read(2, 0, 8) == b"00000002"
    assert opened.read(0, 7, 1) == b"0"


def test_few_are_open_at_a_time_and_none_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "MOST_OPEN", 2)
    opened = files(tmp_path, 5)
    for number in (0, 1, 2, 3, 4, 3, 0):
        assert opened.read(number, 0, 8) == b"%08d" % number
    assert descriptors(tmp_path) == 2
    (tmp_path / "3").unlink()
    assert opened.read(3, 0, 8) == b"00000003"  # used lately, so still open
    del opened
    assert descriptors(tmp_path) == 0


def test_a_file_that_vanished_or_changed_is_told(tmp_path: Path) -> None:
    opened = files(tmp_path, 3)
    (tmp_path / "0").unlink()
    with pytest.raises(DataError, match=r"0: cannot be read any more .No such file"):
        opened.read(0, 0, 8)
    (tmp_path / "1").write_bytes(b"123")
    with pytest.raises(DataError, match=r"1: has no longer 8 bytes: .* start anew"):
        opened.read(1, 0, 3)
    assert opened.read(2, 0, 8)
    os.truncate(tmp_path / "2", 4)
    with pytest.raises(DataError, match="2: has no longer 8 bytes"):
        opened.read(2, 0, 8)
    assert descriptors(tmp_path) == 1
