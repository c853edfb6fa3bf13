from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from knltrain.data.dataset import Halves
from knltrain.data.encoded import DecodingRules
from knltrain.data.packed_check import check_packed
from knltrain.data.packed_records import StoredAs
from knltrain.data.packing import pack
from knltrain.data.packing_work import PackingWork
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.folder import open_folder
from knltrain.data.readers.halves import open_halves
from knltrain.data.readers.packed import load_packed
from knltrain.data.source import SKIPPED
from knltrain.errors import BrokenPicture, DataError

from .packed import encoded_halves, packed, raw_halves, work_of

ROOT = Path(__file__).parents[3]
SLOW_PACKING = """
import sys, time
from pathlib import Path
from knltrain.data.packing import pack
from knltrain.data.packing_work import PackingWork
from tests.knltrain.data.packed import raw_halves, work_of
pack(work_of(raw_halves(images=200)), Path(sys.argv[1]), lambda _done: time.sleep(0.1))
"""


def test_a_killed_packing_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    journal = tmp_path / "a.pack.partial.journal"
    process = subprocess.Popen([sys.executable, "-c", SLOW_PACKING, str(path)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not path.exists()
    halves, told, done = raw_halves(images=200), [], []
    pack(work_of(halves), path, done.append, told.append)
    assert len(told) == 1
    assert told[0].endswith("of 208 pictures are packed already")
    assert 0 < done[0] < 208
    assert sum(done) == 208
    assert path.read_bytes() == packed(tmp_path / "b.pack", halves).read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pack", "b.pack"]


class StoppedError(Exception):
    pass


def interrupted(path: Path, work: PackingWork, calls: int) -> None:
    """Stop a packing after so many calls of `tell`."""
    told: list[int] = []

    def tell(done: int) -> None:
        told.append(done)
        if len(told) > calls:
            raise StoppedError

    with pytest.raises(StoppedError):
        pack(work, path, tell)


def test_other_data_and_options_begin_anew(tmp_path: Path) -> None:
    path, told = tmp_path / "a.pack", []
    interrupted(path, work_of(raw_halves()), 2)
    pack(work_of(raw_halves(), StoredAs(side=4)), path, say=told.append)
    assert told == [
        "what an earlier packing has left is of other data or options: all is packed anew"
    ]
    assert load_packed(path).train.image_shape == (4, 4, 3)


def test_a_partial_file_that_was_cut_begins_anew(tmp_path: Path) -> None:
    path, told = tmp_path / "a.pack", []
    interrupted(path, work_of(raw_halves()), 2)
    os.truncate(tmp_path / "a.pack.partial", 4097)
    pack(work_of(raw_halves()), path, say=told.append)
    assert told == ["what an earlier packing has left is damaged: all is packed anew"]
    assert check_packed(path) == []


def test_broken_pictures_stop_or_are_replaced(tmp_path: Path) -> None:
    encoded_halves(tmp_path / "pictures")
    (tmp_path / "pictures/train/cat/4.jpg").write_bytes(b"\xff\xd8\xffbroken")
    path = tmp_path / "a.pack"
    with pytest.raises(BrokenPicture, match=r"4.jpg: cannot be decoded"):
        packed(path, open_again(tmp_path, skip=False))
    known = len(SKIPPED)
    halves = open_again(tmp_path, skip=True)
    found = load_packed(packed(path, halves)).train
    assert len(SKIPPED) == known + 1
    for row in range(len(found)):
        np.testing.assert_array_equal(found.picture(row), halves.train.picture(row))


def open_again(root: Path, skip: bool) -> Halves:
    files = DataFiles(root / "pictures", decoding=DecodingRules(skip=skip))
    return open_halves("folder", open_folder, files)


def test_room_is_looked_for_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=9_000))
    with pytest.raises(DataError, match=r"takes .* KiB, and 8.8 KiB are free"):
        packed(tmp_path / "a.pack", raw_halves())
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.pack"
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(DataError, match=r"a.pack.partial: cannot be written \(No space left"):
            packed(path, raw_halves())
    packed(path, raw_halves())
    assert check_packed(path) == []


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pack", raw_halves())
    with pytest.raises(DataError, match="is there already"):
        packed(path, raw_halves())
    with pytest.raises(DataError, match="there is no folder"):
        packed(tmp_path / "none/a.pack", raw_halves())


def test_two_packings_do_not_write_one_file(tmp_path: Path) -> None:
    path, halves = tmp_path / "a.pack", raw_halves()

    def another(_done: int) -> None:
        with pytest.raises(DataError, match="another process writes it"):
            packed(path, halves)

    pack(work_of(halves), path, another)
