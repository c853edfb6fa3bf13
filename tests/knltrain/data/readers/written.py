"""Small data sets, written in the formats that readers read."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import lmdb
import numpy as np

from knltrain.data.source import ImageSource

CLASSES = 4


def pictures(count: int, channels: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures uint8 (count,5,6,channels), and labels 0, 1, 2, 3, 0, ..."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (count, 5, 6, channels), np.uint8)
    return pixels, np.arange(count) % CLASSES


def check(source: ImageSource | None, pixels: np.ndarray, labels: np.ndarray) -> None:
    """All pictures and labels are those, picture by picture and read in one go, in any order."""
    assert source is not None
    np.testing.assert_array_equal(source.labels, labels)
    assert source.channels == pixels.shape[3]
    for row, picture in enumerate(pixels):
        np.testing.assert_array_equal(source.picture(row), picture)
    rows = np.random.default_rng(1).permutation(len(pixels))[: len(pixels) // 2 + 1]
    out = np.empty((len(rows), *pixels.shape[1:]), np.uint8)
    source.read(rows, out)
    np.testing.assert_array_equal(out, pixels[rows])


def write_idx(path: Path, array: np.ndarray) -> None:
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def varint(number: int) -> bytes:
    """As protocol buffers have it."""
    found = b""
    number &= 2**64 - 1
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def datum(pixels: np.ndarray, label: int) -> bytes:
    """A picture (H,W,C) as convert_imageset writes it."""
    height, width, channels = pixels.shape
    data = pixels.transpose(2, 0, 1).tobytes()
    shape = b"".join(
        varint(number << 3) + varint(value)
        for number, value in ((1, channels), (2, height), (3, width))
    )
    return shape + varint(4 << 3 | 2) + varint(len(data)) + data + varint(5 << 3) + varint(label)


def encoded_datum(data: bytes, label: int) -> bytes:
    return (
        varint(4 << 3 | 2) + varint(len(data)) + data + varint(5 << 3) + varint(label) + b"\x38\x01"
    )


def write_lmdb(path: Path, records: list[bytes]) -> None:
    with lmdb.open(str(path), map_size=2**24) as environment, environment.begin(write=True) as put:
        for number, record in enumerate(records):
            put.put(b"%08d_x" % number, record)
