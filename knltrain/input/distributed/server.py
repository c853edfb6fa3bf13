"""A node's door: other nodes' processes fetch pictures of its part there (see `client`)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, final

import numpy as np

from knltrain.communication.rendezvous.handshake import (
    HELLO_BYTES,
    OTHER,
    PROOF_BYTES,
    HandshakeError,
    answered,
    rank_in,
)
from knltrain.communication.rendezvous.peer_connection import (
    close_in_forked_processes,
    end_when_silent,
)
from knltrain.communication.rendezvous.visitor import MOST_VISITORS, VISIT_SECONDS, VisitorLog
from knltrain.input.distributed.client import (
    MOST_ROWS,
    REQUEST,
    SILENCE_SECONDS,
    STATUS,
    STAY,
    receive_all,
    send_all,
)
from knltrain.input.distributed.parts import Part

_PAUSE_SECONDS: Final = 0.02


@final
class PartServer:
    """Gives the records of `parts`, one of each half, to all `nodes` nodes that know `key`.

    Each connection has a thread, which sends from the memory of the part. Connections that have
    proved nothing are as few, and end as soon, as those at the port of the first task.
    """

    def __init__(
        self, listener: socket.socket, key: bytes, parts: Sequence[Part], nodes: int
    ) -> None:
        self._listener, self._key, self._parts, self._nodes = listener, key, parts, nodes
        self._visitors = threading.BoundedSemaphore(MOST_VISITORS)
        self._strangers = VisitorLog()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._left = 0
        self._closed = False
        close_in_forked_processes(listener)
        listener.setblocking(True)
        threading.Thread(target=self._let_in, name="data-door", daemon=True).start()

    def await_others(self, others: int, is_vain: Callable[[], bool]) -> None:
        """Wait until so many clients have left that had said that they stay, or it is in vain."""
        while self._left < others and not is_vain():
            time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """End all connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which ends `accept`
        self._listener.close()
        with self._lock:
            self._closed = True
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _let_in(self) -> None:
        while not self._closed:
            try:
                connection, address = self._listener.accept()
            except OSError:  # closed, or too many files are open: retry later
                time.sleep(_PAUSE_SECONDS)
                continue
            if not self._visitors.acquire(blocking=False):
                connection.close()
                continue
            given = connection, str(address[0])
            threading.Thread(target=self._serve, args=given, name="data-part", daemon=True).start()

    def _serve(self, connection: socket.socket, address: str) -> None:
        close_in_forked_processes(connection)
        with self._lock:
            self._open.add(connection)
        try:
            if self._closed:  # else `close` ends it
                raise EOFError
            try:
                self._meet(connection)
            finally:
                self._visitors.release()
            self._answer_all(connection)
        except HandshakeError as error:
            with self._lock:
                self._strangers.turned_away(address, str(error))
        except (OSError, EOFError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _meet(self, connection: socket.socket) -> None:
        """Have a client prove itself in time."""
        deadline = time.monotonic() + VISIT_SECONDS
        said = _in_time(connection, HELLO_BYTES, deadline)
        node = rank_in(said)
        if node >= self._nodes:
            raise HandshakeError(f"it says that it is node {node} of {self._nodes}")
        handshake, answer = answered(self._key, said)
        connection.sendall(answer)
        handshake.check(OTHER, _in_time(connection, PROOF_BYTES, deadline))
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_when_silent(connection, SILENCE_SECONDS)

    def _answer_all(self, connection: socket.socket) -> None:
        head = bytearray(REQUEST.size)
        while True:
            receive_all(connection, [memoryview(head)])
            half, count = REQUEST.unpack(head)
            if half == STAY:
                connection.sendall(STATUS.pack(0))
                self._await_leave(connection)
                return
            if half >= len(self._parts) or not 0 < count <= MOST_ROWS:
                _refuse(connection, f"{count} pictures of half {half}")
                return
            wanted = bytearray(8 * count)
            receive_all(connection, [memoryview(wanted)])
            rows = np.frombuffer(wanted, "<i8").tolist()
            part = self._parts[half]
            strange = [row for row in rows if row not in part]
            if strange:
                _refuse(connection, f"it does not hold picture {strange[0]} of half {half}")
                return
            records = [part.record(row) for row in rows]
            sizes = np.array([len(each) for each in records], "<i8").tobytes()
            send_all(connection, [memoryview(STATUS.pack(0) + sizes), *records])

    def _await_leave(self, connection: socket.socket) -> None:
        try:
            while connection.recv(1):
                pass
        finally:
            with self._lock:
                self._left += 1


def _in_time(connection: socket.socket, size: int, deadline: float) -> bytes:
    found = b""
    while len(found) < size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        received = connection.recv(size - len(found))
        if not received:
            raise EOFError
        found += received
    return found


def _refuse(connection: socket.socket, why: str) -> None:
    said = why.encode()
    connection.sendall(STATUS.pack(len(said)) + said)
