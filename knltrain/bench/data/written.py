"""Pictures as they are to be in a benchmark, in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import lmdb
import numpy as np
import simplejpeg

from knltrain.data.contents import contents_of_recipe
from knltrain.data.dataset import Halves, numbered
from knltrain.data.packed_records import QUALITY, Records, StoredAs
from knltrain.data.packing import pack
from knltrain.data.packing_work import PackingWork
from knltrain.data.source import ArraySource, Pixels
from knltrain.interchange.caffe.wire_writing import message_field, number_field
from vectorized_ops.implementations import Operations

CLASSES: Final = 10

_FIELD = 8
"""Pixels of a field of one colour, as large as those that JPEG transforms."""
_NOISE = 16


def smooth_pictures(count: int, pixels: int, channels: int) -> Pixels:
    """Pictures (count, pixels, pixels, channels) of fields with some noise: JPEGs as of photos."""
    random = np.random.default_rng(0)
    fields = -(-pixels // _FIELD)
    coarse = random.integers(_NOISE, 256 - _NOISE, (count, fields, fields, channels), np.uint8)
    found = coarse.repeat(_FIELD, axis=1)[:, :pixels].repeat(_FIELD, axis=2)[:, :, :pixels]
    noise = random.integers(0, _NOISE, found.shape, np.uint8)
    return np.ascontiguousarray(found + noise)


def written_packed(path: Path, pictures: Pixels, stored: StoredAs) -> Path:
    """A packed file of them, the first few also for testing."""
    makes_pass: Any = Operations("numba").part("pictures", "PicturePass")
    train, test = (_source(each) for each in (pictures, pictures[:CLASSES]))
    records = Records(train, stored, makes_pass), Records(test, stored, makes_pass)
    pack(PackingWork(Halves("bench", train, test), stored, records, exif=False, threads=1), path)
    return path


def written_lmdb(folder: Path, pictures: Pixels) -> None:
    """An LMDB as Caffe writes it: planes, in a Datum each."""
    _, height, width, channels = pictures.shape
    room = 2 * pictures.nbytes + 2**24
    with lmdb.open(str(folder), map_size=room) as file, file.begin(write=True) as writing:
        for number, picture in enumerate(pictures):
            planes = np.ascontiguousarray(picture.transpose(2, 0, 1)).tobytes()
            parts = [
                *number_field(1, channels),
                *number_field(2, height),
                *number_field(3, width),
                *message_field(4, [planes]),
                *number_field(5, number % CLASSES),
            ]
            writing.put(b"%08d" % number, b"".join(parts))


def written_folder(root: Path, pictures: Pixels, files: int) -> None:
    """An image folder of so many JPEGs for training, picture after picture and again.

    As many files as there are classes are for testing.
    """
    space, subsampling = ("RGB", "420") if pictures.shape[3] == 3 else ("GRAY", "Gray")
    jpegs = [simplejpeg.encode_jpeg(each, QUALITY, space, subsampling) for each in pictures]
    for half, count in (("train", files), ("test", CLASSES)):
        for number in range(count):
            path = root / half / str(number % CLASSES) / f"{number:06d}.jpg"
            if number < CLASSES:
                path.parent.mkdir(parents=True)
            path.write_bytes(jpegs[number % len(jpegs)])


def _source(pictures: Pixels) -> ArraySource:
    contents = contents_of_recipe("bench data", len(pictures), pictures.shape[1:])
    labels = np.arange(len(pictures)) % CLASSES
    return ArraySource(pictures, labels, numbered(CLASSES), contents, "bench data")
