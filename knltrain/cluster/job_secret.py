"""The secret of a launch, by which its tasks authenticate each other.

Other users of the cluster can see what a launcher tells a task: job, ports, host names. So a task
gets the secret in one of these ways:

- from the variable KNLTRAIN_JOB_SECRET,
- from `knltrain launch` on standard input,
- from a file in the user's home, readable by the user alone, which the first task writes.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import select
import stat
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, final

from knltrain.cluster.task import OWN, Task
from knltrain.errors import ConfigError

CARRIED: Final = "KNLTRAIN_JOB_SECRET"
COMES_IN: Final = f"{OWN}_SECRET"
"""Set to `AT_STDIN` by `knltrain launch`, which then sends the secret there, as a line."""

AT_STDIN: Final = "stdin"
SECRET_BYTES: Final = 32

_DIGITS = 2 * SECRET_BYTES
_LONGEST_DIGITS = 1024
_SENT_SECONDS = 20.0
_ABANDONED_SECONDS = 86_400.0
_NOT_THERE = (errno.ENOENT, errno.ESTALE)
"""The latter if a network file system still has a handle of a file that was replaced."""

_TAKEN: dict[str, str] = {}


def new_secret() -> str:
    """Return a new random secret in hexadecimal digits."""
    return secrets.token_hex(SECRET_BYTES)


@final
class JobSecret:
    """The secret of a launch, as this process, one of its tasks, uses it.

    ``folder`` is where its file lies if the secret is not given by variable or standard input; by
    default ~/.config/knltrain/jobs. Raises ConfigError if a given secret is too short, or if the
    file needs a home folder and there is none.
    """

    def __init__(self, task: Task, folder: Path | None = None) -> None:
        self._name = task.launch
        self._carried = _carried()
        digest = sha256(self._name.encode()).hexdigest()[:16]
        if folder is None:  # a given secret needs no folder, and no home
            folder = Path() if self._carried is not None else _default_folder()
        self._path = folder / f"{digest}.secret"
        self._written: str | None = None

    @property
    def place(self) -> str:
        """Where the secret comes from, for messages; never the secret itself."""
        return CARRIED if self._carried is not None else f"'{self._path}'"

    def offered(self) -> bytes:
        """Return the first task's key, and write it where the others find it.

        Raises ConfigError if others can access the folder, or if it cannot be written.
        """
        if self._carried is not None:
            return self._key(self._carried)
        self._written = new_secret()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_alone(self._path.parent)
            self._remove_abandoned()
            self._write(self._written)
        except OSError as error:
            raise ConfigError(
                f"'{self._path}', where the tasks of this job are to find their secret, cannot be "
                f"written: {error.strerror}; {_way_out()}"
            ) from None
        return self._key(self._written)

    def found(self) -> bytes | None:
        """Return the key of the launch; None if the first task has not offered it yet.

        It may be that of an earlier job of the same name. Raises ConfigError if others can read or
        write it.
        """
        if self._carried is not None:
            return self._key(self._carried)
        with suppress(OSError):
            # A network file system caches for a while that a file does not exist. Listing the
            # folder asks the server.
            list(self._path.parent.iterdir())
        try:
            text = self._read()
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise ConfigError(
                f"'{self._path}', the secret of this job, cannot be read: {error.strerror}; "
                f"{_way_out()}"
            ) from None
        return self._key(text) if _is_secret(text) else None

    def withdraw(self) -> None:
        """Remove the file that this task has written, once all have read it."""
        if self._written is None:
            return
        with suppress(OSError):
            if self._path.read_text(encoding="ascii").strip() == self._written:
                self._path.unlink()
        self._written = None

    def _key(self, secret: str) -> bytes:
        return hmac.digest(bytes.fromhex(secret), self._name.encode(), "sha256")

    def _read(self) -> str:
        fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            _check_alone(self._path, os.fstat(fd))
            return file.read(_LONGEST_DIGITS).decode("ascii", errors="replace").strip()

    def _write(self, secret: str) -> None:
        """Write the file atomically; there may be one of a killed job."""
        partial = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}.partial")
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(f"{secret}\n")
            partial.replace(self._path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def _remove_abandoned(self) -> None:
        for path in self._path.parent.glob("*.secret*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()


def _carried() -> str | None:
    """Return the given secret; processes started from here do not inherit it."""
    if CARRIED not in _TAKEN:
        given = os.environ.pop(CARRIED, None)
        if given is None and os.environ.get(COMES_IN) == AT_STDIN:
            given = _sent()
        if given is None:
            return None
        if not _is_secret(given):
            raise ConfigError(
                f"{CARRIED} has {len(given)} characters: expected {_DIGITS} hexadecimal digits, as "
                "from: od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n'"
            )
        _TAKEN[CARRIED] = given
    return _TAKEN[CARRIED]


def _sent() -> str:
    """Return the line that `knltrain launch` sends; further input is dropped."""
    deadline, line = time.monotonic() + _SENT_SECONDS, b""
    while not line.endswith(b"\n") and len(line) <= _LONGEST_DIGITS:
        ready, _, _ = select.select([0], [], [], max(0.0, deadline - time.monotonic()))
        received = os.read(0, 1) if ready else b""
        if not received:
            raise ConfigError(
                f"{COMES_IN}={AT_STDIN}, but no secret has come in at standard input: expected "
                "that of knltrain launch; start this process by it, or without its variables"
            )
        line += received
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return line.decode("ascii", errors="replace").strip()


def _is_secret(text: str) -> bool:
    digits = set("0123456789abcdefABCDEF")
    return (
        _DIGITS <= len(text) <= _LONGEST_DIGITS and len(text) % 2 == 0 and digits.issuperset(text)
    )


def _check_alone(path: Path, found: os.stat_result | None = None) -> None:
    """Refuse a path that is not this user's, or that others can read or write."""
    status = path.stat() if found is None else found
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"'{path}', for the secret of this job, belongs to user {status.st_uid}: expected one "
            f"of user {os.geteuid()}; {_way_out()}"
        )
    if mode & 0o077:
        raise ConfigError(
            f"'{path}', for the secret of this job, is open to others (mode {mode:04o}): expected "
            f"it for its user alone, as by chmod go= {path}; {_way_out()}"
        )


def _default_folder() -> Path:
    try:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:
        raise ConfigError(
            f"user {os.getuid()} has no home folder, where the tasks of this job are to find their "
            f"secret: set HOME or XDG_CONFIG_HOME to a folder that they share, {_way_out()}"
        ) from None
    return Path(base) / "knltrain" / "jobs"


def _way_out() -> str:
    return (
        f"or give all tasks the same secret by the variable {CARRIED}, as "
        "scripts/many_nodes.sbatch does"
    )
