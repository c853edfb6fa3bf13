"""Which node holds which pictures of a data set, and a node's part in memory.

Node k of N holds the pictures from k n / N to (k + 1) n / N of each half of n. It reads them from
the files, one after another, and no others. A picture lies there as a record:

- raw: its bytes (H,W,C); all records have one size,
- encoded: the length of its name (uint32), the name, and its bytes as they are in the files.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from affinity.numbers import format_bytes
from affinity.process.cgroup import available_bytes
from knltrain.data.encoded import EncodedSource
from knltrain.data.source import ImageSource, Rows
from knltrain.errors import DataError

NAME_LENGTH: Final = struct.Struct("<I")
COPIES: Final = 2
"""Of its part that a node has room for: it is read, and then copied to what its processes share."""

_READ_BYTES: Final = 8 * 2**20
_LOOKED_AT: Final = 32
"""Encoded pictures at equal distances, whose sizes tell that of all."""


@final
@dataclass(frozen=True, slots=True)
class Division:
    """`images` pictures divided among so many nodes."""

    images: int
    nodes: int

    def part(self, node: int) -> range:
        """The numbers of the pictures that a node holds."""
        return range(*(each * self.images // self.nodes for each in (node, node + 1)))

    def owners(self, rows: Rows) -> Rows:
        """The node of each picture, (n,)."""
        ends = [self.part(node).stop for node in range(self.nodes)]
        return np.searchsorted(np.array(ends, np.int64), rows, side="right").astype(np.int64)


@final
@dataclass(frozen=True, slots=True)
class Part:
    """Records from number `first` on, in `content` uint8; `begins` int64 (n + 1,) of each.

    Records of one size have it as `record_bytes` instead.
    """

    first: int
    content: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64] | None = None
    record_bytes: int = 0

    def __len__(self) -> int:
        if self.begins is None:
            return self.content.size // self.record_bytes
        return len(self.begins) - 1

    def __contains__(self, row: int) -> bool:
        return self.first <= row < self.first + len(self)

    def record(self, row: int) -> memoryview:
        """Record `row`, which is of this part."""
        number = row - self.first
        if self.begins is None:
            begin, end = number * self.record_bytes, (number + 1) * self.record_bytes
        else:
            begin, end = self.begins[number : number + 2].tolist()
        return self.content.data[begin:end]


def read_part(source: ImageSource, rows: range) -> Part:
    """Read these pictures of a source, in their order; DataError where it cannot be divided."""
    check_divisible(source)
    if isinstance(source, EncodedSource):
        return _encoded(source, rows)
    assert source.image_shape is not None
    pixels = np.empty((len(rows), *source.image_shape), np.uint8)
    size = math.prod(source.image_shape)
    step = max(1, _READ_BYTES // size)
    for begin in range(0, len(rows), step):
        out = pixels[begin : begin + step]
        first = rows.start + begin
        source.read(np.arange(first, first + len(out)), out)
    return Part(rows.start, pixels.reshape(-1), None, size)


def check_divisible(source: ImageSource) -> None:
    """Refuse raw pictures of several sizes, and encoded ones in several databases: DataError."""
    if source.image_shape is None and not isinstance(source, EncodedSource):
        raise DataError(
            f"data.memory = 'distributed': {source.picture_name(0)} and others: expected raw "
            "pictures of one size, or encoded ones in one database; pack them (`knltrain pack "
            "CONFIG FILE`), or take data.memory = 'node'"
        )


def part_bytes(source: ImageSource, nodes: int) -> int:
    """Of the part that each node holds; of encoded pictures by a few of them. Raises DataError."""
    count = -(-len(source) // nodes)
    if source.image_shape is not None:
        return count * math.prod(source.image_shape)
    check_divisible(source)
    assert isinstance(source, EncodedSource)
    few = min(len(source), _LOOKED_AT)
    looked = (np.arange(few) * len(source) // few).tolist()
    return count * sum(len(source.pictures.data(row)) for row in looked) // few


def check_room(needed: int, nodes: int) -> None:
    """Refuse a part that does not fit this computer's memory: DataError."""
    free = available_bytes()
    if COPIES * needed > free:
        raise DataError(
            f"data.memory = 'distributed': each of {nodes} nodes holds {format_bytes(needed)}, and "
            f"needs {format_bytes(COPIES * needed)} while it reads them; {format_bytes(free)} of "
            "memory are free here: use more nodes, or fewer images (data.train_images, "
            "data.test_images)"
        )


def _encoded(source: EncodedSource, rows: range) -> Part:
    content, begins = bytearray(), np.zeros(len(rows) + 1, np.int64)
    for number, row in enumerate(rows):
        name = source.picture_name(row).encode(errors="surrogateescape")
        content += NAME_LENGTH.pack(len(name))
        content += name
        content += source.pictures.data(row)
        begins[number + 1] = len(content)
    return Part(rows.start, np.frombuffer(content, np.uint8), begins)
