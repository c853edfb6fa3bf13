from __future__ import annotations

import struct
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest

from knltrain.data.packed_format import gaps
from knltrain.data.packed_reading import header_begin, read_header, read_section
from knltrain.errors import DataError

from .packed import packed, raw_halves


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return packed(tmp_path / "a.pack", raw_halves())


def test_sections_lie_at_pages_and_hold_what_is_told(path: Path) -> None:
    header = read_header(path)
    for half in (header.train, header.test):
        assert all(section.begin % 4096 == 0 for section in half.sections())
        assert len(read_section(path, half.labels)) == 8 * half.images
    assert header.train.image_shape == (6, 7, 3)
    free = [path.read_bytes()[begin:end] for begin, end in gaps(header, header_begin(path))]
    assert not any(map(any, free))


@pytest.mark.parametrize("kept", [0, 7, 20, 47, 48, 4096, 9000, -1])
def test_truncated_files_are_refused(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"truncated|no packed data set"):
        read_header(path)


def test_longer_files_are_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DataError, match="longer than it was written"):
        read_header(path)


def test_newer_versions_are_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8:16] = struct.pack("<Q", 2)
    content[40:48] = struct.pack("<Q", xxh3_64_intdigest(bytes(content[:40])))
    path.write_bytes(content)
    with pytest.raises(DataError, match="version 2 of the format, and this knltrain reads up to 1"):
        read_header(path)


@pytest.mark.parametrize("place", [9, 17, 25, 33, 41, -1, -100])
def test_damaged_headers_are_refused(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        read_header(path)


def test_damaged_sections_are_refused(path: Path) -> None:
    labels = read_header(path).train.labels
    content = bytearray(path.read_bytes())
    content[labels.begin + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"bytes {labels.begin:,} to {labels.end:,}"):
        read_section(path, labels)
