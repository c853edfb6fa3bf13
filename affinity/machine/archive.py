"""The files of a machine in a tar archive, read in memory: nothing is unpacked to a disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import final

from affinity.errors import TopologyError
from affinity.machine.files import MAX_BYTES, MachineFiles, only_machine

MAX_LINKS = 40

_TREES = {
    **dict.fromkeys(["devices", "firmware", "bus", "kernel"], "sys"),
    **dict.fromkeys(["cpuinfo", "meminfo", "driver"], "proc"),
}
"""Where ``sys`` and ``proc`` begin in the archive: by what lies in them."""


@final
class ArchiveFiles(MachineFiles):
    """A capture of ``sys`` and ``proc``, with any leading folders, compressed or not.

    Raises TopologyError naming the file if it cannot be read, is damaged, or is not an archive.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._contents: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        try:
            self._take(_unpack(path))
        except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as bad:
            raise TopologyError(
                f"{path} cannot be read as an archive ({bad}): expected a whole tar file, as "
                "`python -m affinity snapshot` writes"
            ) from bad

    def read_bytes(self, path: str, limit: int | None = None) -> bytes | None:
        """See `MachineFiles`."""
        content = self._contents.get(self._resolve(path))
        return content if content is None else content[:limit]

    def names(self, folder: str, prefix: str = "") -> tuple[str, ...]:
        """See `MachineFiles`."""
        found = self._children.get(self._resolve(folder), ())
        return tuple(sorted(name for name in found if name.startswith(prefix)))

    def link(self, path: str) -> str | None:
        """See `MachineFiles`."""
        return self._links.get(join(self._resolve(dirname(path)), path.rpartition("/")[2]))

    def _take(self, content: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            members = archive.getmembers()
            # The module stops without a word at a header that makes no sense, as at the end.
            end = content[archive.offset : archive.offset + tarfile.BLOCKSIZE]
            if not end or end.strip(b"\0"):
                raise tarfile.ReadError(f"broken off after {len(members)} entries")
            prefix = _prefix(self.name, [member.name for member in members])
            for member in members:
                if path := _relative(member.name, prefix):
                    self._add(archive, member, path, prefix)

    def _add(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, prefix: tuple[str, ...]
    ) -> None:
        if member.issym():
            self._links[path] = member.linkname
        elif member.islnk() and (linked := _relative(member.linkname, prefix)) in self._contents:
            self._contents[path] = self._contents[linked]
        elif member.isreg() and not member.issparse() and (file := archive.extractfile(member)):
            self._contents[path] = file.read()
        while path:
            folder, _, name = path.rpartition("/")
            if name in self._children[folder]:
                return
            self._children[folder].add(name)
            path = folder

    def _resolve(self, path: str) -> str:
        known = path in self._contents or path in self._children
        return path if known else resolve(path, self._links)


def resolve(path: str, links: Mapping[str, str]) -> str:
    """`path` with none of the symbolic `links` in it; "" if they lead round in circles."""
    done, left = "", path.split("/")
    for _ in range(MAX_LINKS):
        while left and join(done, left[0]) not in links:
            done = join(done, left.pop(0))
        if not left:
            return done
        target = normpath(join("/", done, links[join(done, left.pop(0))]))
        done, left = "", [*target.lstrip("/").split("/"), *left]
    return ""


def _unpack(path: Path) -> bytes:
    packed = path.read_bytes()
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        raise ValueError("compressed by zstd, which Python cannot read: use zstd -d first")
    stream = _stream(packed)
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_BYTES >> 20} MiB")
    return content


def _stream(packed: bytes) -> io.BufferedIOBase:
    if packed.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=io.BytesIO(packed))
    if packed.startswith(b"BZh"):
        return bz2.BZ2File(io.BytesIO(packed))
    return lzma.LZMAFile(io.BytesIO(packed)) if packed.startswith(b"\xfd7z") else io.BytesIO(packed)


def _prefix(name: str, members: list[str]) -> tuple[str, ...]:
    """The folders that lie before ``sys`` and ``proc``; none where there is neither.

    Raises TopologyError if the machines of several lie side by side.
    """
    found = set[tuple[str, ...]]()
    for member in members:
        parts = _parts(member)
        found.update(
            parts[:place]
            for place, (tree, inside) in enumerate(pairwise(parts))
            if _TREES.get(inside) == tree
        )
    outer = [root for root in found if not any(root[:cut] in found for cut in range(len(root)))]
    only_machine(name, ["/".join(root) for root in outer])
    return min(found, key=len, default=())


def _relative(name: str, prefix: tuple[str, ...]) -> str:
    """The path after `prefix`; "" if it is not below that."""
    parts = _parts(name)
    inside = parts[: len(prefix)] == prefix and ".." not in parts
    return "/".join(parts[len(prefix) :]) if inside else ""


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part for part in name.split("/") if part not in ("", "."))
