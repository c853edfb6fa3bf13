"""A connection between two processes that notices, in bounded time, that the other end is gone."""

from __future__ import annotations

import hmac
import os
import select
import socket
import struct
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, final

from knltrain.communication.control_message import (
    LONGEST_BYTES,
    MessageError,
    decoded,
    encoded,
)
from knltrain.communication.rendezvous.handshake import CODE_BYTES, Seal

_BYTES_AT_A_TIME = 2**16
_LENGTH = struct.Struct(">I")
_HEAD_BYTES = _LENGTH.size + CODE_BYTES


@final
class PeerConnection:
    """A TCP connection that carries messages in frames: length, authentication code, message.

    Both ends have proved themselves: ``own`` and ``others`` are the seals of their frames.
    `own_address` and `other_address` are the addresses of the ends. `rank`, `where` and `identity`
    (of a process) describe the other end. It counts as gone if its kernel has not answered for
    ``silence_seconds``; `given_up` is the reason if this end has given it up. Raises OSError if the
    other end has gone already.
    """

    def __init__(
        self, connection: socket.socket, silence_seconds: int, own: Seal, others: Seal
    ) -> None:
        self.connection, self.rank, self.where = connection, 0, ""
        self.own_address = str(connection.getsockname()[0])
        self.other_address = str(connection.getpeername()[0])
        self.identity = 0
        self.given_up: str | None = None
        self._own, self._others = own, others
        self._received = b""
        self._telling = threading.Lock()
        end_when_silent(connection, silence_seconds)
        close_in_forked_processes(connection)

    def tell(self, message: Any) -> None:
        """Send a message, if the other end is still there; any thread may call this."""
        text = encoded(message)
        with self._telling, suppress(OSError):
            self.connection.sendall(_LENGTH.pack(len(text)) + self._own.code(text) + text)

    def tell_in_passing(self, message: Any) -> None:
        """Send a message, or drop it if that would block until the other end reads."""
        writable = select.poll()
        with suppress(OSError, ValueError):
            writable.register(self.connection, select.POLLOUT)
            if writable.poll(0):
                self.tell(message)

    def give_up(self, why: str) -> None:
        """Make `messages` end, and record ``why``; any thread may call this."""
        self.given_up = why
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def messages(self) -> list[Any] | None:
        """Wait for messages; None if the connection has ended, or a frame is invalid."""
        try:
            received = self.connection.recv(_BYTES_AT_A_TIME)
            if not received:
                return None
            self._received += received
            return list(self._whole())
        except (OSError, MessageError):
            return None

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def _whole(self) -> Iterator[Any]:
        """Yield the messages that have arrived completely; MessageError for an invalid frame."""
        while len(self._received) >= _HEAD_BYTES:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > LONGEST_BYTES:
                raise MessageError(f"a frame of {length} bytes: expected at most {LONGEST_BYTES}")
            end = _HEAD_BYTES + length
            if len(self._received) < end:
                return
            code, text = self._received[_LENGTH.size : _HEAD_BYTES], self._received[_HEAD_BYTES:end]
            self._received = self._received[end:]
            if not hmac.compare_digest(code, self._others.code(text)):
                raise MessageError("a frame that the other end has not sent")
            yield decoded(text)


def end_when_silent(connection: socket.socket, seconds: int) -> None:
    """Make a connection fail once the other end's kernel has not answered for so long."""
    half = max(1, seconds // 2)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, half),
        (socket.TCP_KEEPINTVL, 1),
        (socket.TCP_KEEPCNT, half),
        (socket.TCP_USER_TIMEOUT, 1000 * seconds),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


_OPEN: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def close_in_forked_processes(connection: socket.socket) -> None:
    """Close the copy in forked processes: it would keep the connection of a dead parent open."""
    _OPEN.add(connection)


def _close_all() -> None:
    for connection in list(_OPEN):
        connection.close()


os.register_at_fork(after_in_child=_close_all)
