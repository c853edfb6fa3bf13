from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.bench.data.written import CLASSES, smooth_pictures, written_lmdb, written_packed
from knltrain.data.packed_records import StoredAs
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.lmdb import open_lmdb
from knltrain.data.readers.packed import load_packed


@pytest.mark.parametrize("channels", [1, 3])
def test_files_hold_the_pictures(tmp_path: Path, channels: int) -> None:
    pictures = smooth_pictures(12, 20, channels)
    written_lmdb(tmp_path / "train_lmdb", pictures)
    mapped = open_lmdb(DataFiles(tmp_path), "train")
    packed = load_packed(written_packed(tmp_path / "p", pictures, StoredAs())).train
    assert mapped is not None
    for source in (mapped, packed):
        np.testing.assert_array_equal(np.stack(source.pictures_of(np.arange(12))), pictures)
        assert source.labels.tolist() == [number % CLASSES for number in range(12)]


def test_jpegs_are_as_large_as_those_of_photos(tmp_path: Path) -> None:
    """Noise would have some 5 bits a value, a flat picture none."""
    pictures, stored = smooth_pictures(10, 128, 3), StoredAs(short_side=128)
    packed = load_packed(written_packed(tmp_path / "p", pictures, stored)).train
    sizes = [len(packed.encoded(row) or b"") for row in range(10)]
    assert 0.03 < np.mean(sizes) / (128 * 128 * 3) < 0.3
    assert np.abs(packed.picture(3).astype(int) - pictures[3]).mean() < 12
