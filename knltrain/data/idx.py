"""Reader for idx, the file format of MNIST (http://yann.lecun.com/exdb/mnist/)."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from knltrain.data.mapped import map_array
from knltrain.errors import DataError

UNSIGNED_BYTE = 0x08
GZIP_MAGIC = b"\x1f\x8b"
MOST_DIMENSIONS = 4

_PART_BYTES = 2**20
"""Bytes read at a time: a header's size is not trusted for one large allocation."""


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file, gzipped or not, in the shape its header gives.

    The file is: two zero bytes, the type (0x08), the number of dimensions, each dimension as a
    big-endian 32-bit number, then the values. Raises DataError that names the file when it is
    missing, is no idx file, or holds fewer or more values than its header says.
    """
    with _opened(path) as file:
        shape, start = _header(path, file)
        asked = math.prod(shape)
        content = bytearray()
        while len(content) < asked and (part := file.read(min(_PART_BYTES, asked - len(content)))):
            content += part
        surplus = 0
        while part := file.read(_PART_BYTES):
            surplus += len(part)
    if len(content) < asked:
        raise DataError(
            f"{path}: truncated: {asked - len(content)} bytes are missing, its header "
            f"{shape} asks for {start + asked} bytes and there are {start + len(content)}: "
            "fetch it again"
        )
    if surplus:
        raise DataError(
            f"{path}: {surplus} bytes follow the {start + asked} that its header "
            f"{shape} asks for: fetch it again"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def map_idx(path: Path) -> npt.NDArray[np.uint8]:
    """As `read_idx`, but mapped from a file that is not compressed: it takes no memory.

    The file must not get shorter afterwards.
    """
    with _opened(path) as file:
        if isinstance(file, gzip.GzipFile):
            return read_idx(path)
        shape, start = _header(path, file)
        size = path.stat().st_size
    if size != start + math.prod(shape) or not math.prod(shape):
        return read_idx(path)  # which says what is wrong
    return map_array(path, np.uint8, start, shape)


def read_shape(path: Path) -> tuple[int, ...]:
    """The shape that the header of an idx file gives; raises DataError as `read_idx` does."""
    with _opened(path) as file:
        return _header(path, file)[0]


def begins_as_idx(path: Path) -> bool:
    """Whether a file, gzipped or not, begins as an idx file of bytes; False if unreadable."""
    try:
        with _opened(path) as file:
            return file.read(3) == bytes([0, 0, UNSIGNED_BYTE])
    except DataError:
        return False


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """The content of a file, decompressed if needed; all errors name the file."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            if not packed:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: truncated or damaged gzip file ({error}): fetch it again"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}): set data.root to the folder that holds it"
        ) from error


def _header(path: Path, file: BinaryIO | gzip.GzipFile) -> tuple[tuple[int, ...], int]:
    """Shape, and number of bytes before the first value."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != UNSIGNED_BYTE or magic[3] == 0:
        raise DataError(
            f"{path}: starts with 0x{magic.hex()}, expected 0x000008 and the number of dimensions: "
            "not an idx file of unsigned bytes"
        )
    if magic[3] > MOST_DIMENSIONS:
        raise DataError(
            f"{path}: has {magic[3]} dimensions, expected at most {MOST_DIMENSIONS}: not images "
            "or labels"
        )
    dimensions = file.read(4 * magic[3])
    missing = 4 * magic[3] - len(dimensions)
    if missing:
        raise DataError(
            f"{path}: truncated: {missing} bytes of its header are missing: fetch it again"
        )
    return struct.unpack(f">{magic[3]}I", dimensions), 4 + len(dimensions)
