"""The layout of a packed data set: one file with both halves, little-endian, made to be mapped.

- Page 0: a magic number, the version, begin and size of the header, its checksum, and a checksum of
  these words.
- Sections, each at a page of 4 KiB: pictures of both halves; then of each half its labels, its
  offsets (of records that differ in size) and checksums of its pictures, one a block of 4 MiB.
- The header, JSON, to the end of the file: where the sections lie, and what the data set is.

All checksums are XXH3. What lies between sections is 0.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from xxhash import xxh3_64, xxh3_64_intdigest

from knltrain.data.contents import HalfContents

PAGE: Final = 4096
BLOCK: Final = 4 * 2**20
"""Bytes of pictures that have a checksum of their own."""
VERSION: Final = 1

MAGIC: Final = b"knl-pack"
FIRST: Final = struct.Struct("<8s4Q")
"""Magic number, version; begin, size and checksum of the header. Then their own checksum."""
CHECKSUM: Final = struct.Struct("<Q")
WORDS_BYTES: Final = FIRST.size + CHECKSUM.size


@dataclass(frozen=True, slots=True)
class Section:
    """So many bytes of the file from `begin`; `digest` is that of all, "" of pictures."""

    begin: int
    size: int
    digest: str = ""

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.begin + self.size


@dataclass(frozen=True, slots=True)
class PackedHalf:
    """Where one half lies. `image_shape` (H,W,C) is that of raw pictures, None of encoded ones.

    Labels are float32 (images, `targets`), or int64 (images,) where `targets` is 0. Offsets int64
    (images + 1,) count from the begin of the pictures, checksums are uint64.
    """

    images: int
    image_shape: tuple[int, int, int] | None
    targets: int
    contents: HalfContents
    pictures: Section
    labels: Section
    checksums: Section
    offsets: Section | None = None

    def sections(self) -> tuple[Section, ...]:
        """All of them."""
        return tuple(filter(None, (self.pictures, self.labels, self.checksums, self.offsets)))

    def is_whole(self, limit: int) -> bool:
        """Whether all sections lie at pages before `limit`, and are as large as they are to be."""
        sizes = [
            (self.labels, self.images * (4 * self.targets or 8)),
            (self.checksums, -(-self.pictures.size // BLOCK) * 8),
        ]
        if self.image_shape is not None:
            sizes.append((self.pictures, self.images * math.prod(self.image_shape)))
        if self.offsets is not None:
            sizes.append((self.offsets, (self.images + 1) * 8))
        return (
            self.images > 0
            and (self.image_shape is None) == (self.offsets is not None)
            and all(section.size == size for section, size in sizes)
            and all(
                each.begin % PAGE == 0 and PAGE <= each.begin <= each.end <= limit
                for each in self.sections()
            )
        )


@dataclass(frozen=True, slots=True)
class PackedHeader:
    """What a packed file holds; `exif` says that encoded pictures are turned as it asks."""

    description: str
    class_names: tuple[str, ...]
    channels: int
    exif: bool
    train: PackedHalf
    test: PackedHalf

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> PackedHeader:
        """The inverse of `dataclasses.asdict` and JSON; KeyError or TypeError for other fields."""
        own = {**fields, "class_names": tuple(map(str, fields["class_names"]))}
        for half in ("train", "test"):
            found = dict(fields[half])
            for name in ("pictures", "labels", "checksums", "offsets"):
                found[name] = None if found[name] is None else Section(**found[name])
            if found["image_shape"] is not None:
                height, width, channels = map(int, found["image_shape"])
                found["image_shape"] = height, width, channels
            contents = found["contents"]
            found["contents"] = HalfContents(
                contents["images"], tuple(contents["image_shape"]), contents["digest"]
            )
            own[half] = PackedHalf(**found)
        return cls(**own)


def aligned(place: int) -> int:
    """The begin of the next page, or the place itself."""
    return -(-place // PAGE) * PAGE


def written_header(header: PackedHeader, begin: int) -> tuple[bytes, bytes]:
    """The header as it is to lie at `begin`, and the first bytes of the file that lead to it."""
    told = json.dumps(asdict(header), sort_keys=True).encode()
    first = FIRST.pack(MAGIC, VERSION, begin, len(told), xxh3_64_intdigest(told))
    return told, first + CHECKSUM.pack(xxh3_64_intdigest(first))


def gaps(header: PackedHeader, end: int) -> Iterator[tuple[int, int]]:
    """The parts of the file, from begin to end, that belong to no section."""
    place = WORDS_BYTES
    for section in sorted(
        (*header.train.sections(), *header.test.sections()), key=lambda each: each.begin
    ):
        yield place, section.begin
        place = section.end
    yield place, end


class BlockSums:
    """XXH3 of each block of 4 MiB of what is added."""

    def __init__(self) -> None:
        self.complete: list[int] = []
        self._open, self._filled = xxh3_64(), 0

    def add(self, data: bytes | memoryview) -> None:
        """Add the next bytes."""
        rest = memoryview(data)
        while len(rest):
            part = rest[: BLOCK - self._filled]
            self._open.update(part)
            self._filled += len(part)
            rest = rest[len(part) :]
            if self._filled == BLOCK:
                self.complete.append(self._open.intdigest())
                self._open, self._filled = xxh3_64(), 0

    def all(self) -> list[int]:
        """Of all blocks, the last one as it is."""
        return [*self.complete, *([self._open.intdigest()] if self._filled else [])]
