"""A connection to another node's door: pictures of its part are asked for by their numbers.

Both ends prove that they know the key of the run's data (`rendezvous.handshake`). Then the client
sends requests: two uint32, the half and a count, and so many int64 numbers of pictures. The answer
is a uint32 status; if that is 0, the sizes of the records (int64), then the records; else so many
bytes of text that say what is wrong. STAY has a status alone. All numbers are little-endian.
"""

from __future__ import annotations

import socket
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from knltrain.communication.rendezvous.handshake import (
    ANSWER_BYTES,
    HandshakeError,
    confirmed,
    hello,
)
from knltrain.communication.rendezvous.peer_connection import (
    close_in_forked_processes,
    end_when_silent,
)
from knltrain.data.source import Rows
from knltrain.errors import PeerLost

REQUEST: Final = struct.Struct("<II")
STATUS: Final = struct.Struct("<I")
STAY: Final = 0xFFFFFFFF
"""In place of a half: the connection is kept until the client has no need of the part any more."""

MOST_ROWS: Final = 2**16
"""Of one request."""

SILENCE_SECONDS: Final = 10
_FIRST_SECONDS: Final = 1800.0
"""How long a door may be closed at first: its node may still be reading its part."""

_MOST_BUFFERS: Final = 512
"""Of one call; Linux takes 1,024."""


@final
@dataclass(frozen=True, slots=True)
class Doors:
    """Where node `node` finds the others: the address (host, port) of each node's door.

    `key` is that of the run's data. A door that has not answered for `limit_seconds` is lost.
    """

    node: int
    addresses: tuple[tuple[str, int], ...]
    key: bytes
    limit_seconds: float


@final
class ConnectionEnded(PeerLost):
    """A connection has ended; another may still be had, as after a long stop or a late proof."""


@final
class PartClient:
    """A connection to the door of a node. All calls raise PeerLost if the node is gone."""

    def __init__(self, doors: Doors, node: int) -> None:
        self._doors, self._node, self._patience_seconds = doors, node, doors.limit_seconds
        try:
            self._connection = socket.create_connection(doors.addresses[node], doors.limit_seconds)
        except OSError as error:
            raise self._lost(error) from error
        weakref.finalize(self, self._connection.close)  # threads end without closing it
        try:
            close_in_forked_processes(self._connection)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end_when_silent(self._connection, SILENCE_SECONDS)
            self._prove()
        except (OSError, HandshakeError) as error:
            self.close()
            raise self._lost(error) from error

    def ask(self, half: int, rows: Rows) -> None:
        """Ask for the pictures `rows` (n,) of a half; they are to be received before others."""
        self._send(REQUEST.pack(half, len(rows)) + rows.astype("<i8").tobytes())

    def sizes(self, count: int) -> list[int]:
        """The sizes in bytes of the records that were asked for."""
        self._check_status()
        found: list[int] = np.frombuffer(self._received(8 * count), "<i8").tolist()
        return found

    def receive(self, buffers: Sequence[memoryview]) -> None:
        """Receive the records, each to its buffer of that size."""
        try:
            receive_all(self._connection, buffers)
        except (OSError, EOFError) as error:
            raise self._lost(error) from error

    def stay(self) -> None:
        """Say that this node needs the other one's part until this connection is closed.

        Returns once the other one knows.
        """
        self._send(REQUEST.pack(STAY, 0))
        self._check_status()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _prove(self) -> None:
        self._wait_for(_FIRST_SECONDS)
        said = hello(self._doors.node)
        self._connection.sendall(said)
        _, proof = confirmed(self._doors.key, said, self._received(ANSWER_BYTES))
        self._connection.sendall(proof)
        self._wait_for(self._doors.limit_seconds)

    def _check_status(self) -> None:
        (status,) = STATUS.unpack(self._received(STATUS.size))
        if status:
            said = self._received(min(status, 1000)).decode(errors="replace")
            raise PeerLost(f"{self._name()} refuses: {said}")

    def _wait_for(self, seconds: float) -> None:
        self._patience_seconds = seconds
        self._connection.settimeout(seconds)

    def _send(self, message: bytes) -> None:
        try:
            self._connection.sendall(message)
        except OSError as error:
            raise self._lost(error) from error

    def _received(self, size: int) -> bytes:
        found = bytearray(size)
        self.receive([memoryview(found)])
        return bytes(found)

    def _name(self) -> str:
        host, port = self._doors.addresses[self._node]
        return f"node {self._node}, which holds its part of the data at {host}:{port},"

    def _lost(self, error: Exception) -> PeerLost:
        if isinstance(error, TimeoutError) and error.errno is None:  # else it is the kernel's
            return PeerLost(f"{self._name()} has not answered in {self._patience_seconds:g} s")
        kind = PeerLost if isinstance(error, HandshakeError) else ConnectionEnded
        return kind(f"{self._name()} is gone: {error or type(error).__name__}")


def receive_all(connection: socket.socket, buffers: Sequence[memoryview]) -> None:
    """Fill all buffers, one after another; EOFError if the connection ends before."""
    left = [each for each in buffers if len(each)]
    first = 0
    while first < len(left):
        received = connection.recvmsg_into(left[first : first + _MOST_BUFFERS])[0]
        if not received:
            raise EOFError("the connection has ended")
        first = _passed(left, first, received)


def send_all(connection: socket.socket, buffers: Sequence[memoryview]) -> None:
    """Send all buffers, one after another."""
    left = [each for each in buffers if len(each)]
    first = 0
    while first < len(left):
        first = _passed(left, first, connection.sendmsg(left[first : first + _MOST_BUFFERS]))


def _passed(left: list[memoryview], first: int, size: int) -> int:
    """The first buffer that is not done with after `size` bytes; it begins where these end."""
    while size and size >= len(left[first]):
        size -= len(left[first])
        first += 1
    if size:
        left[first] = left[first][size:]
    return first
