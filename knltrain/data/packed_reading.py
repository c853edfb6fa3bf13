"""Reads what a packed file says of itself: its header and sections, checked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from knltrain.data.packed_format import (
    CHECKSUM,
    FIRST,
    MAGIC,
    VERSION,
    WORDS_BYTES,
    PackedHeader,
    Section,
)
from knltrain.errors import DataError
from knltrain.files.durable import reason_of
from knltrain.files.regular import regular

_WAY: Final = "pack the data set anew, or copy the file again"


def read_header(path: Path) -> PackedHeader:
    """The header of a packed file, checked; nothing of the file is mapped before.

    Raises DataError for other files, and those that are truncated, damaged or of a newer version.
    """
    try:
        with regular(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin, length, checksum = _first_words(path, file.read(WORDS_BYTES))
            if size != begin + length:
                what = "truncated" if size < begin + length else "longer than it was written"
                raise DataError(
                    f"{path}: {what}: it has {size:,} bytes, expected {begin + length:,}: {_WAY}"
                )
            file.seek(begin)
            told = file.read(length)
    except OSError as error:
        raise DataError(
            f"data.root = '{path}': cannot be read ({reason_of(error)}): expected the file that "
            "`knltrain pack` has written"
        ) from error
    if xxh3_64_intdigest(told) != checksum:
        raise damaged(path, "its header")
    try:
        header = PackedHeader.from_fields(json.loads(told))
        whole = header.train.is_whole(begin) and header.test.is_whole(begin)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise damaged(path, "its header") from error
    if not whole or header.channels not in (1, 3):
        raise damaged(path, "its header")
    return header


def read_section(path: Path, section: Section) -> bytes:
    """The bytes of a section that has a digest; DataError if it does not agree."""
    try:
        with path.open("rb") as file:
            file.seek(section.begin)
            found = file.read(section.size)
    except OSError as error:
        raise DataError(f"{path}: cannot be read any more ({reason_of(error)})") from error
    if xxh3_128_hexdigest(found) != section.digest:
        raise damaged(path, f"bytes {section.begin:,} to {section.end:,}")
    return found


def header_begin(path: Path) -> int:
    """Where the header of a file that `read_header` takes begins."""
    with path.open("rb") as file:
        return _first_words(path, file.read(WORDS_BYTES))[0]


def damaged(path: Path, what: str) -> DataError:
    """That a part of a file is not what was written."""
    return DataError(f"{path}: damaged: {what}, by the checksum: {_WAY}")


def _first_words(path: Path, first: bytes) -> tuple[int, int, int]:
    """Begin, size and checksum of the header; DataError if this is no packed file of ours."""
    if first[: len(MAGIC)] != MAGIC:
        raise DataError(
            f"{path}: no packed data set, or one that is not complete: expected the file that "
            "`knltrain pack CONFIG FILE` writes to its end"
        )
    if len(first) < WORDS_BYTES:
        raise DataError(f"{path}: truncated: it has {len(first)} bytes: {_WAY}")
    _, version, begin, size, checksum = FIRST.unpack_from(first)
    if CHECKSUM.unpack_from(first, FIRST.size)[0] != xxh3_64_intdigest(first[: FIRST.size]):
        raise damaged(path, "its first bytes")
    if version > VERSION:
        raise DataError(
            f"{path}: version {version} of the format, and this knltrain reads up to {VERSION}: "
            "take a newer knltrain, or pack the data set with this one"
        )
    return begin, size, checksum
