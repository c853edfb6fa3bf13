"""idx files are read exactly, or refused with the file's name and what is wrong with it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.idx import map_idx, read_idx, read_shape
from knltrain.errors import DataError

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
FILE = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + VALUES.tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test puts its idx file."""
    return tmp_path / "some-idx3-ubyte"


@pytest.mark.parametrize("content", [FILE, gzip.compress(FILE)], ids=["plain", "gzip"])
def test_values_come_back_in_the_header_s_shape(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    values = read_idx(path)
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, VALUES)


def test_missing_file_is_named_with_the_way_out(path: Path) -> None:
    with pytest.raises(DataError, match=r"some-idx3-ubyte: cannot be read.*set data\.root"):
        read_idx(path)


@pytest.mark.parametrize("content", [FILE, gzip.compress(FILE)], ids=["plain", "gzip"])
def test_shape_is_known_without_the_values(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert read_shape(path) == (2, 3, 4)


@pytest.mark.parametrize("packed", [False, True])
def test_header_s_word_alone_takes_no_memory(path: Path, packed: bool) -> None:
    """It asks for 2**96 bytes."""
    content = struct.pack(">4B3I", 0, 0, 8, 3, *(3 * [2**32 - 1])) + b"abc"
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=r"truncated: \d+ bytes are missing"):
        read_idx(path)


def test_many_bytes_after_the_last_value_are_counted_not_kept(path: Path) -> None:
    path.write_bytes(gzip.compress(FILE + bytes(3 * 2**20)))
    with pytest.raises(DataError, match=f"{3 * 2**20} bytes follow the 40"):
        read_idx(path)


@pytest.mark.parametrize("kept", [39, 17, 16])
def test_truncated_file_is_named_with_missing_bytes(path: Path, kept: int) -> None:
    path.write_bytes(FILE[:kept])
    with pytest.raises(DataError, match=rf"ubyte: truncated: {40 - kept} bytes are missing"):
        read_idx(path)


@pytest.mark.parametrize("kept", [15, 4])
def test_truncated_header_is_named_with_missing_bytes(path: Path, kept: int) -> None:
    path.write_bytes(FILE[:kept])
    with pytest.raises(DataError, match=rf"truncated: {16 - kept} bytes of its header"):
        read_idx(path)


@pytest.mark.parametrize("kept", [5, -5, -12])
def test_truncated_gzip_file_is_named(path: Path, kept: int) -> None:
    path.write_bytes(gzip.compress(FILE)[:kept])
    with pytest.raises(DataError, match="some-idx3-ubyte: truncated or damaged gzip file"):
        read_idx(path)


def test_damaged_gzip_file_is_named(path: Path) -> None:
    damaged = bytearray(gzip.compress(FILE))
    damaged[-8] ^= 1  # the checksum
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="some-idx3-ubyte: truncated or damaged gzip file"):
        read_idx(path)


def test_bytes_after_the_last_value_are_refused(path: Path) -> None:
    path.write_bytes(FILE + b"abc")
    with pytest.raises(DataError, match="3 bytes follow the 40"):
        read_idx(path)


@pytest.mark.parametrize(
    ("magic", "shown"),
    [
        (b"\x00\x00\x0d\x03", "0x00000d03"),  # floats
        (b"\x00\x00\x08\x00", "0x00000800"),  # no dimensions
        (b"PNG\x03", "0x504e4703"),
        (b"\x00\x00", "0x0000"),
        (b"", "0x"),
    ],
)
def test_wrong_magic_is_shown_with_what_was_expected(path: Path, magic: bytes, shown: str) -> None:
    path.write_bytes(magic + (FILE[4:] if len(magic) == 4 else b""))
    with pytest.raises(DataError, match=f"ubyte: starts with {shown}, expected 0x000008"):
        read_idx(path)


def test_plain_files_are_mapped_and_packed_ones_read(path: Path) -> None:
    path.write_bytes(FILE)
    assert isinstance(map_idx(path), np.memmap)
    np.testing.assert_array_equal(map_idx(path), VALUES)
    path.write_bytes(gzip.compress(FILE))
    assert not isinstance(map_idx(path), np.memmap)
    np.testing.assert_array_equal(map_idx(path), VALUES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FILE[:-1], "truncated: 1 bytes are missing"),
        (FILE + b"x", "1 bytes follow"),
        (b"\0\0\x0d\x01", "not an idx file of unsigned bytes"),
        (gzip.compress(FILE, mtime=0)[:-9], "truncated or damaged gzip"),
    ],
)
def test_damaged_files_are_not_mapped(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        map_idx(path)


def test_files_without_values_are_not_mapped(path: Path) -> None:
    path.write_bytes(struct.pack(">4B2I", 0, 0, 8, 2, 0, 5))
    assert map_idx(path).shape == (0, 5)
