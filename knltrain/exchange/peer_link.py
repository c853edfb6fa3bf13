"""A connection between two processes that notices, in bounded time, that the other end is gone."""

from __future__ import annotations

import json
import os
import socket
import weakref
from contextlib import suppress
from typing import Any, final

_BYTES_AT_A_TIME = 4096
_LONGEST_MESSAGE_BYTES = 2**20


@final
class PeerLink:
    """A TCP connection that carries JSON, a message per line.

    `rank` and `where` are what the user knows of the other end. One that has not answered the
    kernel for ``silence_seconds`` counts as gone.
    """

    def __init__(self, connection: socket.socket, silence_seconds: int) -> None:
        self.connection, self.rank, self.where = connection, 0, ""
        self._received = b""
        half = max(1, silence_seconds // 2)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, half),
            (socket.TCP_KEEPINTVL, 1),
            (socket.TCP_KEEPCNT, half),
            (socket.TCP_USER_TIMEOUT, 1000 * silence_seconds),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        close_in_forked_processes(connection)

    def tell(self, message: Any) -> None:
        """Send a message, if the other end is still there."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> list[Any] | None:
        """Wait for messages; None when the connection has ended, or carries something else."""
        try:
            received = self.connection.recv(_BYTES_AT_A_TIME)
            *lines, self._received = (self._received + received).split(b"\n")
            if not received or len(self._received) > _LONGEST_MESSAGE_BYTES:
                return None
            return [json.loads(line) for line in lines]
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """End the connection."""
        self.connection.close()


_OPEN: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def close_in_forked_processes(connection: socket.socket) -> None:
    """Have forked processes close their copy: it would keep the connection of a dead one alive."""
    _OPEN.add(connection)


def _close_all() -> None:
    for connection in list(_OPEN):
        connection.close()


os.register_at_fork(after_in_child=_close_all)
