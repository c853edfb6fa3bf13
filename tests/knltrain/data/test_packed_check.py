from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.packed_check import check_packed, picture_bytes
from knltrain.data.packed_format import BLOCK, PAGE
from knltrain.data.readers.packed import load_packed
from knltrain.errors import DataError

from .packed import encoded_halves, packed, raw_halves


def test_a_whole_file_has_nothing_to_tell(tmp_path: Path) -> None:
    path, told = packed(tmp_path / "a.pack", raw_halves()), []
    assert check_packed(path, told.append) == []
    assert sum(told) == picture_bytes(path) == 45 * 6 * 7 * 3


@pytest.mark.parametrize("kind", ["raw", "encoded"])
def test_damage_at_any_byte_is_refused_or_found(tmp_path: Path, kind: str) -> None:
    halves = raw_halves() if kind == "raw" else encoded_halves(tmp_path / "pictures")
    path = packed(tmp_path / "a.pack", halves)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for place in (*random.integers(0, len(whole), 60).tolist(), 0, 47, 48, len(whole) - 1):
        content = bytearray(whole)
        content[place] ^= 1 << int(random.integers(0, 8))
        path.write_bytes(content)
        try:
            assert check_packed(path), f"byte {place}"
            for source in (load_packed(path).train, load_packed(path).test):
                for row in range(len(source)):
                    source.picture(row)
        except DataError as error:
            assert str(path) in str(error)


def test_damaged_pictures_are_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pack", raw_halves(shape=(1024, 1024), images=4))
    with path.open("rb+") as file:
        file.seek(PAGE + BLOCK + 5)
        file.write(b"damage")
    assert check_packed(path) == ["training pictures 1 to 2, or some of them"]
