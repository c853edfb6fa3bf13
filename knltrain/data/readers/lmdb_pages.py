"""Whether the pages of an LMDB lead nowhere but into its file, found out without mapping it.

LMDB trusts the sizes and places that its pages tell: in a damaged file they lead behind its end,
and reading there kills the process. Layout of version 1 (OpenLDAP, `mdb.c`): a page begins with its
number (8 bytes), 2 unused ones, flags (2) and the end of its table of nodes (2). The table begins
at byte 16. A node has two halves of a size (2 and 2), flags (2), the size of its key (2), the key
and a record, or the page at which that begins. In branches the first three are the page below.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt

_HEADER, _NODE, _PAGE_NUMBER = 16, 8, 8
_BRANCH, _LEAF, _KINDS = 1, 2, 0xF & ~8
_ELSEWHERE: Final = 1
"""Flag of a node: its record has pages of its own."""
_META: Final = struct.Struct("<2I2Q")
"""Magic, version, address, size of the map; behind it two databases, the last page, a number."""
_DATABASE: Final = struct.Struct("<I2H5Q")
"""Size of pages, flags, depth; pages by kind, entries, root."""
_LAST: Final = struct.Struct("<2Q")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_NOTHING: Final = 2**64 - 1

_Numbers = npt.NDArray[np.int64]


def check_pages(path: Path) -> None:
    """Raise ValueError, with the page, if a page of the file is damaged so that it leads astray.

    Only those of this layout are looked at, from the root down; what records hold is not. Raises
    OSError where it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        root, page_size = _root(descriptor)
        if root != _NOTHING:
            _Pages(descriptor, page_size).check(root)
    finally:
        os.close(descriptor)


def _root(descriptor: int) -> tuple[int, int]:
    """The root page of the newer of two descriptions, and the size of pages."""
    first = os.pread(descriptor, 256, 0)
    if len(first) < 256 or _META.unpack_from(first, _HEADER)[:2] != (_MAGIC, _VERSION):
        return _NOTHING, 0
    place = _HEADER + _META.size
    page_size = _DATABASE.unpack_from(first, place)[0]
    if not (256 <= page_size <= 2**16 and page_size & (page_size - 1) == 0):
        raise ValueError(f"its pages have {page_size:,} bytes")
    newest = first, 0
    for page in (first, os.pread(descriptor, 256, page_size)):
        _, number = _LAST.unpack_from(page, place + 2 * _DATABASE.size)
        newest = max(newest, (page, number), key=lambda each: each[1])
    root: int = _DATABASE.unpack_from(newest[0], place + _DATABASE.size)[-1]
    return root, page_size


@final
class _Pages:
    """The pages of an open file."""

    def __init__(self, descriptor: int, page_size: int) -> None:
        self._descriptor, self._size = descriptor, page_size
        self._end = os.fstat(descriptor).st_size

    def check(self, root: int) -> None:
        """All pages from the root down."""
        known = {root}
        below = [root]
        while below:
            number = below.pop()
            for each in self._children(number):
                if each in known:
                    raise ValueError(f"page {number:,} leads to page {each:,}, as another does")
                known.add(each)
                below.append(each)

    def _children(self, number: int) -> Iterator[int]:
        """The pages to which a branch leads."""
        page = b""
        if 0 <= number < self._end // self._size:
            page = os.pread(self._descriptor, self._size, number * self._size)
        if len(page) != self._size:
            raise ValueError(f"page {number:,} lies behind its end")
        own, _, flags, low = struct.unpack_from("<Q3H", page)
        count, kind = (low - _HEADER) // 2, flags & _KINDS
        fits = _HEADER <= low <= self._size and own == number and kind in (_BRANCH, _LEAF)
        if not fits or count < (2 if kind == _BRANCH else 1):
            raise ValueError(f"page {number:,} is none of those that lead to records")
        nodes = np.frombuffer(page, "<u2", count, _HEADER).astype(np.int64)
        if (nodes % 2).any() or (nodes < low).any() or (nodes > self._size - _NODE).any():
            raise ValueError(f"page {number:,} has nodes outside of it")
        words = np.frombuffer(page, "<u2").astype(np.int64)
        fields = words[nodes[:, None] // 2 + np.arange(4)].T
        if kind == _LEAF:
            self._check_records(number, page, nodes, fields)
        elif (nodes + _NODE + fields[3] > self._size).any():
            raise ValueError(f"page {number:,} has keys outside of it")
        else:
            yield from (fields[0] | fields[1] << 16 | fields[2] << 32).tolist()

    def _check_records(
        self, number: int, page: bytes, nodes: _Numbers, fields: npt.NDArray[np.int64]
    ) -> None:
        """Of a leaf: each record ends in it, or in the file."""
        sizes, begins = fields[0] | fields[1] << 16, nodes + _NODE + fields[3]
        elsewhere = fields[2] & _ELSEWHERE != 0
        if (begins + np.where(elsewhere, _PAGE_NUMBER, sizes) > self._size).any():
            raise ValueError(f"page {number:,} has records outside of it")
        for begin, size in zip(begins[elsewhere].tolist(), sizes[elsewhere].tolist(), strict=True):
            (first,) = struct.unpack_from("<Q", page, begin)
            if first * self._size + _HEADER + size > self._end:
                raise ValueError(f"a record of page {number:,} lies behind its end")
