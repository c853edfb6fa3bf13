"""Reader for idx, the file format of MNIST (http://yann.lecun.com/exdb/mnist/)."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knltrain.errors import DataError

UNSIGNED_BYTE = 0x08
GZIP_MAGIC = b"\x1f\x8b"
MOST_DIMENSIONS = 4
_LONGEST_HEADER = 4 + 4 * 255


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file, gzipped or not, in the shape its header gives.

    The file is: two zero bytes, the type (0x08), the number of dimensions, each dimension as a
    big-endian 32-bit number, then the values. Raises DataError that names the file when it is
    missing, is not such a file, or holds fewer or more values than its header says.
    """
    content = _content(path)
    shape, start = _header(path, content)
    if len(shape) > MOST_DIMENSIONS:
        raise DataError(
            f"{path}: has {len(shape)} dimensions, expected at most {MOST_DIMENSIONS}: not images "
            "or labels"
        )
    expected = start + math.prod(shape)
    if len(content) < expected:
        raise DataError(
            f"{path}: truncated: {expected - len(content)} bytes are missing, its header "
            f"{shape} asks for {expected} bytes and there are {len(content)}: fetch it again"
        )
    if len(content) > expected:
        raise DataError(
            f"{path}: {len(content) - expected} bytes follow the {expected} that its header "
            f"{shape} asks for: fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return _unpacked(path, content) if content.startswith(GZIP_MAGIC) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: truncated or damaged gzip file ({error}): fetch it again"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}): set data.root to the folder that holds it"
        ) from error


def _unpacked(path: Path, content: bytes) -> bytes:
    """What is packed, as far as the header says, and a byte more if there is more."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        begin = file.read(_LONGEST_HEADER)
        shape, start = _header(path, begin)
        return begin + file.read(max(0, start + math.prod(shape) + 1 - len(begin)))


def _header(path: Path, content: bytes) -> tuple[tuple[int, ...], int]:
    """Shape, and number of bytes before the first value."""
    magic = content[:4]
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != UNSIGNED_BYTE or magic[3] == 0:
        raise DataError(
            f"{path}: starts with 0x{magic.hex()}, expected 0x000008 and the number of dimensions: "
            "not an idx file of unsigned bytes"
        )
    start = 4 + 4 * magic[3]
    if len(content) < start:
        raise DataError(
            f"{path}: truncated: {start - len(content)} bytes of its header are missing: "
            "fetch it again"
        )
    return struct.unpack(f">{magic[3]}I", content[4:start]), start
