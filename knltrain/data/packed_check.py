"""Verifies all checksums of a packed data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from affinity.process.binding import allowed_cpus
from knltrain.data.packed_format import BLOCK, PackedHalf, gaps
from knltrain.data.packed_reading import header_begin, read_header, read_section
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

_AT_A_TIME: Final = 64
"""Blocks that are in memory at a time."""


def check_packed(path: Path, tell: Callable[[int], object] = lambda _done: None) -> list[str]:
    """What is damaged, pictures by number; `tell` is called with how many bytes more were read.

    Raises DataError where the header is, or the file is no packed data set.
    """
    header = read_header(path)
    found = []
    try:
        with path.open("rb") as file:
            descriptor = file.fileno()
            for begin, end in gaps(header, header_begin(path)):
                if any(os.pread(descriptor, max(end - begin, 0), begin)):
                    found.append(f"bytes {begin:,} to {end:,}, which hold nothing")
            for name, half in (("training", header.train), ("test", header.test)):
                found += _sections(path, half)
                found += _pictures(path, descriptor, name, half, tell)
    except OSError as error:
        raise DataError(f"{path}: cannot be read any more ({reason_of(error)})") from error
    return found


def picture_bytes(path: Path) -> int:
    """How much `check_packed` reads."""
    header = read_header(path)
    return header.train.pictures.size + header.test.pictures.size


def _sections(path: Path, half: PackedHalf) -> Iterator[str]:
    for section in half.sections():
        if section is not half.pictures:
            try:
                read_section(path, section)
            except DataError as error:
                yield str(error)


def _pictures(
    path: Path, descriptor: int, name: str, half: PackedHalf, tell: Callable[[int], object]
) -> Iterator[str]:
    try:
        expected = np.frombuffer(read_section(path, half.checksums), "<u8")
        offsets = offsets_of(path, half)
    except DataError:  # told already
        return
    pictures = half.pictures

    def checksum(block: int) -> tuple[int, int]:
        size = min(BLOCK, pictures.size - block * BLOCK)
        data = os.pread(descriptor, size, pictures.begin + block * BLOCK)
        return xxh3_64_intdigest(data), size

    with ThreadPoolExecutor(len(allowed_cpus())) as threads:
        for first in range(0, len(expected), _AT_A_TIME):
            blocks = range(first, min(first + _AT_A_TIME, len(expected)))
            for block, (found, size) in zip(blocks, threads.map(checksum, blocks), strict=True):
                tell(size)
                if found != expected[block]:
                    low, high = np.searchsorted(
                        offsets, [block * BLOCK, block * BLOCK + size - 1], side="right"
                    )
                    yield f"{name} pictures {low - 1:,} to {high - 1:,}, or some of them"


def offsets_of(path: Path, half: PackedHalf) -> npt.NDArray[np.int64]:
    """Where each picture begins in those of its half, and where the last one ends (images + 1,).

    Raises DataError if they are damaged.
    """
    if half.offsets is None:
        return np.arange(half.images + 1) * (half.pictures.size // half.images)
    found = np.frombuffer(read_section(path, half.offsets), "<i8").astype(np.int64)
    if found[0] != 0 or found[-1] != half.pictures.size or (np.diff(found) < 0).any():
        raise DataError(f"{path}: damaged: where its pictures begin; pack the data set anew")
    return found
