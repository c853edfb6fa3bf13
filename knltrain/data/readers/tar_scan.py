"""What tar shards hold: samples by webdataset's conventions, found once and remembered.

The files of a sample lie next to each other and share a key, the path up to the first dot of the
file's name. The rest, in lower case, says what it is: a picture, or its label in `cls`, `json` or
`txt` (webdataset's tariterators). Members are never written to a disk.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, final

from knltrain.data.readers.picture_files import SUFFIXES
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

LABELS: Final = ("cls", "json", "txt")
"""Suffixes of labels: the first of a sample's counts that tells one."""

_JSON_FIELDS: Final = ("label", "cls", "class")
_MOST_LABEL_BYTES: Final = 2**20
_BLOCK: Final = 512
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f": "zstd",
}


@final
@dataclass(slots=True)
class Sample:
    """A picture in a shard: its name, where its bytes lie, and its label, "" if it has none."""

    name: str
    offset: int
    size: int
    label: str


@final
@dataclass(slots=True)
class ShardScan:
    """The samples of a shard, and the names of members that are left out."""

    path: Path
    samples: list[Sample] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    has_end: bool = True
    """Whether the mark is there that ends a tar file; else some of it may be missing."""

    @classmethod
    def of(cls, path: Path) -> ShardScan:
        """Look through a shard; DataError where it is damaged, or its samples are."""
        found = cls(path)
        try:
            with path.open("rb") as file:
                found._take(file)
        except (tarfile.TarError, OSError, ValueError, EOFError) as error:
            raise DataError(
                f"{path}: is no whole tar file ({reason_of(error)}): fetch it again, or take it "
                "out of data.train or data.test"
            ) from error
        return found

    def _take(self, file: BinaryIO) -> None:
        begin = file.read(6)
        for magic, kind in _COMPRESSED.items():
            if begin.startswith(magic):
                raise DataError(
                    f"{self.path}: is compressed by {kind}: expected a plain tar file, in which "
                    "pictures can be read one by one; unpack it"
                )
        file.seek(0)
        with tarfile.TarFile(fileobj=file, mode="r") as tar:
            self._take_members(_members(tar), file)
            file.seek(tar.offset)
        mark = file.read(_BLOCK)
        if any(mark):
            raise DataError(
                f"{self.path}: is damaged at byte {tar.offset:,}, where a file should begin: fetch "
                "it again"
            )
        self.has_end = len(mark) == _BLOCK

    def _take_members(self, members: Iterator[tarfile.TarInfo], file: BinaryIO) -> None:
        known: set[str] = set()
        key, parts = "", dict[str, tarfile.TarInfo]()
        for member in members:
            name = self._checked_name(member)
            folder, slash, base = name.rpartition("/")
            stem, dot, suffix = base.partition(".")
            if not slash and base.startswith("__") and base.endswith("__"):
                continue  # metadata of webdataset
            if not (member.isreg() and stem and dot):
                if not member.isdir():
                    self.left_out.append(name)
                continue
            if (new := folder + slash + stem) != key:
                self._add(key, parts, file)
                if new in known:
                    raise DataError(
                        f"{self.path}: the files of '{new}' do not lie next to each other, or it "
                        "is there twice: expected every sample once, its files together; pack it "
                        "anew, as by tar --sort=name"
                    )
                known.add(new)
                key, parts = new, {}
            if (suffix := suffix.lower()) in parts:
                raise DataError(
                    f"{self.path}: sample '{key}' has two files .{suffix}: expected one of a kind"
                )
            parts[suffix] = member
        self._add(key, parts, file)

    def _checked_name(self, member: tarfile.TarInfo) -> str:
        name = member.name.removeprefix("./")
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(
                f"{self.path}: holds '{member.name}', a path that leaves the folder it would be "
                "unpacked to: expected names below it; pack it anew, or do not trust it"
            )
        return name

    def _add(self, key: str, parts: dict[str, tarfile.TarInfo], file: BinaryIO) -> None:
        pictures = [suffix for suffix in parts if f".{suffix}" in SUFFIXES]
        if not pictures:
            self.left_out += [f"{key}.{suffix}" for suffix in parts]
            return
        if len(pictures) > 1:
            raise DataError(
                f"{self.path}: sample '{key}' has several pictures, .{' and .'.join(pictures)}: "
                "expected one"
            )
        member = parts[pictures[0]]
        if member.issparse():
            raise DataError(
                f"{self.path}: '{member.name}' is stored sparsely: expected whole files; pack it "
                "anew without tar --sparse"
            )
        label = self._label(key, parts, file)
        name = member.name.removeprefix("./")
        self.samples.append(Sample(name, member.offset_data, member.size, label))

    def _label(self, key: str, parts: dict[str, tarfile.TarInfo], file: BinaryIO) -> str:
        for suffix in LABELS:
            member = parts.get(suffix)
            if member is None or member.issparse() or member.size > _MOST_LABEL_BYTES:
                continue
            file.seek(member.offset_data)
            text = os.fsdecode(file.read(member.size)).strip()
            try:
                found = _label_in_json(text) if suffix == "json" else text
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{self.path}: '{key}.json' is no JSON ({error}): expected a label, or "
                    f"a field {', '.join(_JSON_FIELDS)}; pack it anew"
                ) from error
            if found:
                return found
        return ""


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """One after another; they are not kept, as there may be millions."""
    while (member := tar.next()) is not None:
        tar.members = []  # type: ignore[attr-defined]  # TarFile's list of all it has seen
        yield member


def _label_in_json(text: str) -> str:
    found = json.loads(text)
    if isinstance(found, dict):
        found = next((found[name] for name in _JSON_FIELDS if name in found), None)
    return str(found) if isinstance(found, int | str) and not isinstance(found, bool) else ""
