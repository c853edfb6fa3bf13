"""The door of rank 0, where others come and strangers may: who comes has to prove itself first."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Collection
from typing import Final, final

from knltrain.communication.rendezvous.handshake import HandshakeError
from knltrain.communication.rendezvous.peer_connection import (
    PeerConnection,
    close_in_forked_processes,
)
from knltrain.communication.rendezvous.visitor import (
    MOST_VISITORS,
    VISIT_SECONDS,
    Visitor,
    VisitorLog,
    crowding,
)

SILENCE_SECONDS: Final = 10
"""Without an answer of the other end's kernel, after which a connection counts as ended."""

_PAUSE_SECONDS = 0.02


@final
class Door:
    """A ``listener`` and those who have come to it, of which ``selector`` tells when they speak.

    The selector's data are this door, a `Visitor`, or the link to one that has proved to know
    ``secret``; that stays a visitor until it is `admitted`. Nobody else waits for any of them.
    """

    def __init__(
        self, listener: socket.socket, secret: bytes, ranks: int, selector: selectors.BaseSelector
    ) -> None:
        self._listener, self._secret, self._selector = listener, secret, selector
        self._most = max(MOST_VISITORS, 2 * ranks)
        self._visitors: dict[socket.socket, Visitor] = {}
        self._strangers = VisitorLog()
        close_in_forked_processes(listener)
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self)

    @property
    def pause_seconds(self) -> float | None:
        """How long to wait for anything at most before the late are to be turned away."""
        return VISIT_SECONDS if self._visitors else None

    def let_in(self) -> None:
        """Take somebody in who has come; where they are too many, another one has to go."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it went again, or there are too many open files: later, then
            time.sleep(_PAUSE_SECONDS)
            return
        visitor = Visitor(connection, self._secret)
        self._visitors[connection] = visitor
        self._selector.register(connection, selectors.EVENT_READ, visitor)
        if (one := crowding(self._visitors.values(), self._most)) is not None:
            self.turn_out(one.connection)
            self._strangers.turned_away(
                one, f"more than {self._most} connections have proved nothing"
            )

    def greet(self, visitor: Visitor, awaited: Collection[int]) -> None:
        """Hear a visitor, and from then on its link; nothing that it says ends more than that.

        It may have been closed a moment ago, to make room.
        """
        if visitor.connection not in self._visitors:
            return
        try:
            link = visitor.hear(awaited, SILENCE_SECONDS)
        except HandshakeError as error:
            self.turn_out(visitor.connection)
            self._strangers.turned_away(visitor, str(error))
        except (OSError, EOFError):
            self.turn_out(visitor.connection)
        else:
            if link is not None:
                self._selector.modify(link.connection, selectors.EVENT_READ, link)

    def turn_away_the_late(self) -> None:
        """Close connections that do not prove in time who comes."""
        for connection, visitor in list(self._visitors.items()):
            if time.monotonic() > visitor.deadline:
                self.turn_out(connection)
                self._strangers.turned_away(visitor, f"it proved nothing in {VISIT_SECONDS:g} s")

    def turn_out(self, connection: socket.socket) -> None:
        """Close a connection."""
        self._selector.unregister(connection)
        self._visitors.pop(connection, None)
        connection.close()

    def admitted(self, link: PeerConnection) -> None:
        """Look after a link no longer: it is that of a rank now."""
        del self._visitors[link.connection]

    def shut(self) -> None:
        """Let nobody in any more."""
        self._selector.unregister(self._listener)
        self._listener.close()

    def close(self) -> None:
        """Close what is open."""
        for connection in (*self._visitors, self._listener):
            connection.close()
