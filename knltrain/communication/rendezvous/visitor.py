"""Visitors: connections to the door of rank 0 that have not proved themselves yet."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Final, final

from knltrain.communication.rendezvous.handshake import (
    FIRST,
    HELLO_BYTES,
    OTHER,
    PROOF_BYTES,
    Handshake,
    HandshakeError,
    answered,
    rank_in,
)
from knltrain.communication.rendezvous.peer_connection import (
    PeerConnection,
    close_in_forked_processes,
)

MOST_VISITORS: Final = 64
VISIT_SECONDS: Final = 5.0
REPORT_SECONDS: Final = 10.0

_LOG = logging.getLogger(__name__)


@final
class Visitor:
    """A connection whose other end has not yet proved to know ``secret``.

    Until it has, it may send 71 bytes in all; its time ends at ``deadline``.
    """

    def __init__(self, connection: socket.socket, secret: bytes) -> None:
        self.connection, self.deadline = connection, time.monotonic() + VISIT_SECONDS
        self.address, self.rank, self.has_proved = "an unknown address", 0, False
        self._secret, self._said = secret, b""
        self._handshake: Handshake | None = None
        connection.setblocking(False)
        close_in_forked_processes(connection)
        with suppress(OSError):
            self.address = str(connection.getpeername()[0])

    def hear(self, awaited: Container[int], silence_seconds: int) -> PeerConnection | None:
        """Read what it has sent; return a link to it as soon as it has proved itself.

        Raises HandshakeError for a stranger, or for a rank that is not ``awaited``; OSError or
        EOFError if the connection has ended.
        """
        wanted = HELLO_BYTES if self._handshake is None else PROOF_BYTES
        try:
            received = self.connection.recv(wanted - len(self._said))
        except BlockingIOError:
            return None
        if not received:
            raise EOFError
        self._said += received
        if len(self._said) < wanted:
            return None
        said, self._said = self._said, b""
        if self._handshake is None:
            self._answer(said, awaited)
            return None
        self._handshake.check(OTHER, said)
        self.has_proved = True
        self.connection.setblocking(True)
        seals = self._handshake.seal(FIRST), self._handshake.seal(OTHER)
        link = PeerConnection(self.connection, silence_seconds, *seals)
        link.rank = self.rank
        return link

    def _answer(self, said: bytes, awaited: Container[int]) -> None:
        self.rank = rank_in(said)
        if self.rank not in awaited:
            raise HandshakeError(f"it says that it is rank {self.rank}, which is not awaited")
        self._handshake, answer = answered(self._secret, said)
        self.connection.sendall(answer)


def crowding(visitors: Iterable[Visitor], most: int) -> Visitor | None:
    """Return the visitor to close if there are too many: the oldest from the busiest address."""
    strangers = [visitor for visitor in visitors if not visitor.has_proved]
    if len(strangers) <= most:
        return None
    busiest, _ = Counter(visitor.address for visitor in strangers).most_common(1)[0]
    return next(visitor for visitor in strangers if visitor.address == busiest)


@final
class VisitorLog:
    """Logs a stranger, then only counts further ones for ``REPORT_SECONDS``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent_until = 0.0
        self._untold = 0

    def turned_away(self, address: str, why: str) -> None:
        """Log or count a connection from there that was closed."""
        if self._clock() < self._silent_until:
            self._untold += 1
            return
        more = f" (and {self._untold} others before)" if self._untold else ""
        _LOG.warning("turned away a stranger from %s: %s%s", address, why, more)
        self._silent_until, self._untold = self._clock() + REPORT_SECONDS, 0
