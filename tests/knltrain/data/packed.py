"""Small data sets that tests pack."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knltrain.data.dataset import Halves
from knltrain.data.packed_records import Records, StoredAs
from knltrain.data.packing import pack
from knltrain.data.packing_work import PackingWork
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.folder import open_folder
from knltrain.data.readers.halves import open_halves
from vectorized_ops.reference.pictures import PicturePass

from .given import source_of
from .pictures import jpeg, texture


def raw_halves(
    channels: int = 3, targets: bool = False, shape: tuple[int, int] = (6, 7), images: int = 37
) -> Halves:
    """Pictures of one size: `images` for training, 8 for testing."""
    random = np.random.default_rng(0)
    halves = []
    for count in (images, 8):
        pixels = random.integers(0, 256, (count, *shape, channels), np.uint8)
        labels = np.arange(count) % 3
        given = np.eye(3, dtype=np.float32)[labels] if targets else labels
        halves.append(source_of(pixels, given, 3))
    return Halves("given", *halves, "pictures of a test")


def encoded_halves(root: Path, **settings: object) -> Halves:
    """Ten and four JPEGs of several sizes in a folder."""
    for half, count in (("train", 10), ("test", 4)):
        for number in range(count):
            path = root / half / ("cat", "dog")[number % 2] / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(texture(20 + 4 * number, 40, number)))
    files = DataFiles(root, **settings)  # type: ignore[arg-type]
    return open_halves("folder", open_folder, files)


def work_of(
    halves: Halves, stored: StoredAs | None = None, threads: int = 2, exif: bool = False
) -> PackingWork:
    stored = stored or StoredAs()
    records = [Records(each, stored, PicturePass) for each in (halves.train, halves.test)]
    return PackingWork(halves, stored, (records[0], records[1]), exif, threads, noted_bytes=500)


def packed(path: Path, halves: Halves, stored: StoredAs | None = None, threads: int = 2) -> Path:
    pack(work_of(halves, stored, threads), path)
    return path
