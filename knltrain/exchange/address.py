"""How a process comes to shared memory that another has made: by an address, which is no file.

The maker listens on a socket in Linux's abstract namespace, which vanishes with its process, and
hands the memory's file descriptor to every process of the same user that connects.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
from typing import final

from knltrain.errors import SegmentError

_PREFIX = "knltrain-memory-"
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred, see unix(7)
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.01


@final
class Doorkeeper:
    """Hands a file descriptor to those who ask at ``address``, until it is closed.

    The address is a new one, or one that nobody else on this computer uses.
    """

    def __init__(self, fd: int, address: str | None = None) -> None:
        self.address = address or _PREFIX + secrets.token_hex(8)
        self._fd, self._pid = fd, os.getpid()
        self._closing = False
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
        """Let nobody in any more."""
        if self._pid == os.getpid():  # a forked process would shut its parent's door
            self._closing = True
            # A blocked accept does not notice that its socket is closed, but that it is shut down.
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
        found = visitor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        user = _CREDENTIALS.unpack(found)[1]
        try:
            if user == os.getuid():
                socket.send_fds(visitor, [b"1"], [self._fd])
            else:
                visitor.send(b"0")
        except OSError:
            pass  # it has gone away


def fd_behind(address: str) -> int:
    """Return a descriptor of the memory at ``address``; SegmentError if there is none for us."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as door:
        door.settimeout(_ANSWER_SECONDS)
        try:
            door.connect(f"\0{address}")
            answer, fds, _, _ = socket.recv_fds(door, 1, 1)
        except OSError as error:
            raise SegmentError(
                f"no shared memory at address {address!r} on this computer: "
                f"{error.strerror or error}; expected that of memory whose maker still runs"
            ) from None
    if not fds:
        reason = "it belongs to another user" if answer == b"0" else "its maker has gone away"
        raise SegmentError(f"the shared memory at address {address!r} cannot be opened: {reason}")
    os.set_inheritable(fds[0], False)
    return int(fds[0])
