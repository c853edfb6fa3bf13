from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from knltrain.data.packed_records import StoredAs

from .packed import encoded_halves, packed, raw_halves, work_of


def test_the_size_of_raw_pictures_is_known_and_of_encoded_ones_estimated(tmp_path: Path) -> None:
    halves = raw_halves(shape=(40, 50))
    size = packed(tmp_path / "a.pack", halves).stat().st_size
    assert size <= work_of(halves).size() <= size + 40_000
    encoded = encoded_halves(tmp_path / "pictures")
    size = packed(tmp_path / "b.pack", encoded).stat().st_size
    assert size / 2 < work_of(encoded).size() < 2 * size + 40_000


def test_the_key_tells_data_and_options_apart_and_not_threads() -> None:
    halves = raw_halves()
    keys = {
        work_of(each).key()
        for each in (halves, raw_halves(channels=1), raw_halves(targets=True), raw_halves(images=9))
    }
    keys |= {work_of(halves, StoredAs(side=4)).key(), work_of(halves, exif=True).key()}
    keys |= {work_of(halves, StoredAs(short_side=4)).key()}
    assert len(keys) == 7
    assert work_of(replace(halves), threads=7).key() == work_of(halves).key()
