"""Saves the kernel's description of a machine in one file, to be read elsewhere or later."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import final

from affinity.errors import AffinityError
from affinity.machine.archive import resolve
from affinity.machine.captor import STATUS, captor_status
from affinity.machine.files import CPUINFO, FolderFiles, MachineFiles
from affinity.machine.sysfs import describe_sysfs


def write_snapshot(path: Path, files: MachineFiles | None = None) -> None:
    """Write a tar.gz of exactly the files that `read_machine` reads.

    `files` are by default those of this machine. The file appears whole or not at all. Raises
    AffinityError if there is a file of this name or it cannot be written, TopologyError if the
    machine cannot be read.
    """
    seen = _SeenFiles(files or FolderFiles(Path("/")))
    describe_sysfs(seen)
    seen.read_bytes(CPUINFO)
    seen.keep(STATUS, captor_status(files or FolderFiles(Path("/"))))
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(gzip.compress(seen.archive(), mtime=0))
        path.hardlink_to(beside)  # Unlike renaming, this never replaces a file.
    except FileExistsError:
        raise AffinityError(f"{path} exists: give another name, or remove it first") from None
    except OSError as error:
        raise AffinityError(f"cannot write {path}: {error.strerror}; give another folder") from None
    finally:
        with suppress(OSError):
            beside.unlink()


@final
class _SeenFiles(MachineFiles):
    """Passes reads on to other files, and remembers their content."""

    def __init__(self, files: MachineFiles) -> None:
        self.name = files.name
        self._files = files
        self._contents: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._folders: set[str] = set()

    def read_bytes(self, path: str, limit: int | None = None) -> bytes | None:
        """See `MachineFiles`."""
        content = self._files.read_bytes(path, limit)
        real = resolve(path, self._links)
        if content is not None and len(content) >= len(self._contents.get(real, b"")):
            self._contents[real] = content
        return content

    def names(self, folder: str, prefix: str = "") -> tuple[str, ...]:
        """See `MachineFiles`."""
        found = self._files.names(folder, prefix)
        for name in found:
            path = f"{folder}/{name}"
            # Names count too: a folder may be all that there is, and a link all that is looked at.
            if self.link(path) is None and self._files.read_bytes(path, 1) is None:
                self._folders.add(resolve(path, self._links))
        return found

    def link(self, path: str) -> str | None:
        """See `MachineFiles`."""
        target = self._files.link(path)
        if target is not None:
            self._links[path] = target
        return target

    def keep(self, path: str, text: str) -> None:
        """Remember this text as the content of a file, if there is any."""
        if text:
            self._contents[path] = text.encode()

    def archive(self) -> bytes:
        """All that was seen, as a tar file without times and users."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for path in sorted({*self._folders, *self._links, *self._contents}):
                member = tarfile.TarInfo(path)
                if path in self._links:
                    member.type, member.linkname = tarfile.SYMTYPE, self._links[path]
                elif path in self._contents:
                    member.size = len(self._contents[path])
                else:
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member, io.BytesIO(self._contents.get(path, b"")))
        return content.getvalue()
