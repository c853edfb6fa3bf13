from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.data import packing_writer
from knltrain.data.packed_check import check_packed
from knltrain.data.packed_records import StoredAs
from knltrain.data.packing import pack

from .packed import encoded_halves, packed, raw_halves, work_of
from .test_packing import interrupted


@pytest.mark.parametrize("stored", [StoredAs(), StoredAs(short_side=24), StoredAs(side=16)])
def test_the_file_is_the_same_for_any_number_of_threads(tmp_path: Path, stored: StoredAs) -> None:
    halves = encoded_halves(tmp_path / "pictures")
    files = [packed(tmp_path / f"{n}.pack", halves, stored, n) for n in (1, 2, 5)]
    contents = {path.read_bytes() for path in files}
    assert len(contents) == 1
    assert check_packed(files[0]) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("1.pack", "2.pack", "5.pack", "pictures")
    ]


@pytest.mark.parametrize("kind", ["raw", "encoded"])
@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_every_place_is_gone_on_from(
    tmp_path: Path, kind: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing_writer, "_AT_A_TIME", 5)
    halves = raw_halves() if kind == "raw" else encoded_halves(tmp_path / "pictures")
    path = tmp_path / "a.pack"
    interrupted(path, work_of(halves), calls)
    pack(work_of(halves), path)
    assert path.read_bytes() == packed(tmp_path / "b.pack", halves).read_bytes()
