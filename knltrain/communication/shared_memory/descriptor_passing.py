"""File descriptors of shared memory, passed to other processes that know an address.

The maker of the memory listens on a socket in Linux's abstract namespace, which vanishes with its
process. It sends the memory's file descriptor to every process of the same user that connects. Any
user may take a name in that namespace first, so the client checks, too, who answers and what it
receives.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
import struct
import threading
import time
from typing import final

from knltrain.errors import SegmentError

_PREFIX = "knltrain-memory-"
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred, see unix(7)
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.01
_ROOT = 0


@final
class DescriptorServer:
    """Sends a file descriptor to every process that connects to ``address``, until it is closed.

    By default the address is a new one. A given one must be unused on this computer.
    """

    def __init__(self, fd: int, address: str | None = None) -> None:
        self.address = address or _PREFIX + secrets.token_hex(8)
        self._fd, self._pid = fd, os.getpid()
        self._closing = False
        self.served = 0
        """Times that somebody was given the descriptor."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.bind(f"\0{self.address}")
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="knltrain-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no connections any more."""
        if self._pid == os.getpid():  # a forked process would shut its parent's door
            self._closing = True
            # A blocked accept does not return when its socket is closed, only when it is shut down.
            self._socket.shutdown(socket.SHUT_RDWR)
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._closing:
            try:
                visitor, _ = self._socket.accept()
            except OSError:  # shut down, or no descriptor is free at the moment
                time.sleep(_PAUSE_SECONDS)
                continue
            with visitor:
                self._answer(visitor)

    def _answer(self, visitor: socket.socket) -> None:
        try:
            if user_behind(visitor) == os.geteuid():
                socket.send_fds(visitor, [b"1"], [self._fd])
                self.served += 1
            else:
                visitor.send(b"0")
        except OSError:
            pass  # it has gone away


def user_behind(connection: socket.socket) -> int:
    """Return the effective user id of the process at the other end, by the kernel (unix(7))."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def fd_behind(address: str) -> int:
    """Return a descriptor of the memory at ``address``; SegmentError if there is none for us.

    Refuses a process of another user (except root), and a descriptor that is not shared memory.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as door:
        door.settimeout(_ANSWER_SECONDS)
        try:
            door.connect(f"\0{address}")
            user = user_behind(door)
            if user not in (os.geteuid(), _ROOT):
                raise SegmentError(
                    f"the shared memory at address {address!r} cannot be opened: a process of user "
                    f"{user} answers there, expected one of user {os.geteuid()}"
                )
            answer, fds, _, _ = socket.recv_fds(door, 1, 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise SegmentError(
                f"no shared memory at address {address!r} on this computer: "
                f"{reason or error}; expected that of memory whose maker still runs"
            ) from None
    if not fds:
        reason = "it belongs to another user" if answer == b"0" else "its maker has gone away"
        raise SegmentError(f"the shared memory at address {address!r} cannot be opened: {reason}")
    return _checked(int(fds[0]), address)


def _checked(fd: int, address: str) -> int:
    """Return the descriptor if it is a file of ours that has a size; else close it, SegmentError.

    Whoever maps the file checks its contents and size.
    """
    os.set_inheritable(fd, False)
    found = os.fstat(fd)
    is_memory = stat.S_ISREG(found.st_mode) and found.st_size > 0
    if is_memory and found.st_uid in (os.geteuid(), _ROOT):
        return fd
    os.close(fd)
    what = f"a file of user {found.st_uid}" if is_memory else "no memory"
    raise SegmentError(
        f"the shared memory at address {address!r} cannot be opened: what is handed out there is "
        f"{what}"
    )
