"""A folder of compiled kernels that processes of many nodes read and write concurrently.

A reader always gets a whole entry or none: an entry is written to a temporary file and renamed, and
begins with a checksum of the rest. Locks only avoid double work. They are fcntl locks, one byte of
one file for each entry: the system drops them when their owner dies, and file systems shared
between nodes support them across nodes.

An entry is code: files that others than this user and root can write are refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final, final

DIGEST_LENGTH: Final = 16
UNUSED_SECONDS: Final = 30 * 86_400.0
"""After so long without use an entry is removed, and a folder of other versions' entries."""

MOST_BYTES: Final = 1 << 30
"""Beyond this size the least recently used entries are removed."""

_LOCKS, _ENTRY, _PARTIAL = "locks", ".kernel", ".partial"
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_TOUCH_SECONDS = 86_400.0
_ROOT = 0


class UntrustedError(OSError):
    """Another user may have written this file or folder."""


@final
class CacheFolder:
    """Entries by name, in a folder that is created when the first lock in it is taken.

    It must belong to this user alone, and so must the folder above. If it ``is_shared``, its owner
    is trusted, and so is the group that may write it. A folder that everybody may write is never
    trusted.
    """

    def __init__(self, path: Path, is_shared: bool = False) -> None:
        self.path = path
        self._is_shared = is_shared
        self._file_mode, self.folder_mode = (0o664, 0o775) if is_shared else (0o600, 0o700)
        """What is made gets these, less the umask."""
        self._locks: int | None = None
        self._touched = self._tidied = False

    def make(self) -> None:
        """Make the folder if there is none; OSError where that fails.

        UntrustedError if the folder above is not to be trusted, or would have to be made in one
        that belongs to another user: nothing is made there. A folder above that an earlier version
        has made for this user, and let the user's group write, is closed to it.
        """
        above = self.path.parent
        if not self._is_shared:
            self._check_owner(next(path for path in (above, *above.parents) if path.exists()))
        above.mkdir(mode=self.folder_mode, parents=True, exist_ok=True)
        found = above.stat()
        of_group = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP
        if of_group and not self._is_shared and found.st_uid == os.geteuid():
            above.chmod(stat.S_IMODE(found.st_mode) & ~stat.S_IWGRP)
        self._check(above, above.stat())
        self.path.mkdir(mode=self.folder_mode, exist_ok=True)

    def check(self) -> None:
        """UntrustedError if others may put something into the folder; OSError if there is none."""
        for folder in (self.path.parent, self.path):
            self._check(folder, folder.stat())

    def has(self, name: str) -> bool:
        """Tell whether there is an entry, whatever is in it."""
        try:
            return (self.path / f"{name}{_ENTRY}").stat().st_size > 0
        except OSError:
            return False

    def fault(self, name: str) -> str | None:
        """Tell what is wrong with an entry; None if nothing is, as far as its checksum tells."""
        try:
            return "damaged, by its checksum" if self._content(name) is None else None
        except OSError as error:
            return f"not to be read ({error})"

    def faults(self) -> dict[str, str]:
        """Return the entries with which something is wrong, and what."""
        names = (path.name.removesuffix(_ENTRY) for path in self.path.glob(f"*{_ENTRY}"))
        return {name: fault for name in sorted(names) if (fault := self.fault(name))}

    def read(self, name: str) -> bytes | None:
        """Return the entry, or None where it is missing, damaged or not to be trusted."""
        try:
            return self._content(name)
        except OSError:
            return None

    def read_anew(self, name: str) -> bytes | None:
        """As `read`, but sees what another node has just written.

        OSError in a read-only folder, UntrustedError for an entry that others may have written.
        NFS remembers for a minute that a file did not exist. To open it as one that may have to
        be created asks the server.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        os.close(os.open(self.path / f"{name}{_ENTRY}", flags, self._file_mode))
        try:
            return self._content(name)
        except UntrustedError:
            raise
        except OSError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Put an entry in place of what there may be; OSError where that fails."""
        self.make()
        self.check()
        place = self.path / f"{name}{_ENTRY}"
        self.put(place, hashlib.sha256(content).digest() + content)

    def put(self, place: Path, content: bytes) -> None:
        """Make or replace a file, as a whole; OSError where that fails."""
        partial = self.new_file_beside(place)
        try:
            partial.write_bytes(content)
            partial.replace(place)
        except BaseException as error:
            partial.unlink(missing_ok=True)
            if isinstance(error, OSError):  # that of a full disk names no file
                error.filename, error.filename2 = str(place), None
            raise

    def new_file_beside(self, place: Path) -> Path:
        """Make an empty file to be written, and put in a place when it is whole; OSError."""
        partial = place.with_name(f"{place.stem}.{uuid.uuid4().hex}{_PARTIAL}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(partial, flags, self._file_mode))
        return partial

    def lock(self, name: str) -> bool:
        """Try to become the one who makes an entry; False if another process is at it.

        OSError where the folder cannot be written or its file system has no locks, UntrustedError
        where others may write it.
        """
        if self._locks is None:
            self.make()
            self.check()
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._locks = os.open(self.path / _LOCKS, flags, self._file_mode)
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(name))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(self, name: str) -> None:
        """Let another process have it."""
        assert self._locks is not None
        fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, _place(name))

    def remove_unused(self, now: float) -> None:
        """Remove what nobody has used for `UNUSED_SECONDS`, at time `now` in seconds; once only.

        That is, entries, files in folders of this one, neighbours of it that hold entries of other
        versions, and what killed processes have left in it; then of the entries the oldest, for as
        long as they have more than `MOST_BYTES`. A process that still wants them finds nothing, and
        compiles.
        """
        if self._tidied:
            return
        self._tidied = True
        neighbours = self.path.parent.glob("[0-9a-f]" * DIGEST_LENGTH)
        for path in neighbours:
            if path != self.path and _age(path / _LOCKS, now) > UNUSED_SECONDS:
                _remove(path)
        for path in (*self.path.glob(f"*{_PARTIAL}"), *self.path.glob("*/*")):
            if _age(path, now) > UNUSED_SECONDS:
                _unlink(path)
        self._remove_oldest(now)

    def _remove_oldest(self, now: float) -> None:
        entries = []
        for path in self.path.glob(f"*{_ENTRY}"):
            with suppress(OSError):  # another process was faster
                found = path.stat()
                entries.append((now - found.st_mtime, found.st_size, path))
        kept_bytes = 0
        for age, size, path in sorted(entries):
            kept_bytes += size
            if age > UNUSED_SECONDS or kept_bytes > MOST_BYTES:
                _unlink(path)

    def _content(self, name: str) -> bytes | None:
        self.check()
        path = self.path / f"{name}{_ENTRY}"
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb") as file:
            self._check(path, os.fstat(file.fileno()))
            found = _checked(file.read())
            if found is not None:
                touch(path)
        if found is not None and not self._touched:
            self._touched = True
            touch(self.path / _LOCKS)
        return found

    def _check(self, path: Path, found: os.stat_result) -> None:
        """Refuse what others own, or may write, as ssh does with its keys."""
        mode = stat.S_IMODE(found.st_mode)
        self._check_owner(path, found)
        if mode & (stat.S_IWOTH if self._is_shared else stat.S_IWOTH | stat.S_IWGRP):
            raise UntrustedError(
                f"{path} may be written by others (mode {mode:04o}), whose code would be run: "
                + _way_out(mode, self._is_shared)
            )
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise UntrustedError(f"{path} is neither a file nor a folder")

    def _check_owner(self, path: Path, found: os.stat_result | None = None) -> None:
        owner, user = (found or path.stat()).st_uid, os.geteuid()
        if not self._is_shared and owner not in (user, _ROOT):
            trusted = "root" if user == _ROOT else f"user {user} or root"
            raise UntrustedError(
                f"{path} belongs to user {owner}: expected {trusted}, whose code may be run"
            )


def _way_out(mode: int, is_shared: bool) -> str:
    if mode & stat.S_ISVTX:  # as /tmp: meant for everybody
        return "name a folder of your own in it"
    return f"remove it, or chmod {'o' if is_shared else 'go'}-w it"


def _checked(content: bytes) -> bytes | None:
    checksum, rest = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    return rest if hashlib.sha256(rest).digest() == checksum else None


def _place(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:5], "big")


def _age(path: Path, now: float) -> float:
    """Seconds since a file was touched; 0 if there is none."""
    try:
        return now - path.stat().st_mtime
    except OSError:
        return 0.0


def touch(path: Path) -> None:
    """Note that a file was used, now and then: `CacheFolder.remove_unused` removes others."""
    with suppress(OSError):  # it may be read-only here, or another user's
        if _age(path, time.time()) > _TOUCH_SECONDS:
            os.utime(path)


def _unlink(path: Path) -> None:
    with suppress(OSError):  # it is another user's
        path.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    locks = folder / _LOCKS
    with suppress(OSError):  # another process is at it, or it is another user's
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != locks:
                path.unlink(missing_ok=True)
        locks.unlink(missing_ok=True)  # last: by them a folder is known as ours
        folder.rmdir()
