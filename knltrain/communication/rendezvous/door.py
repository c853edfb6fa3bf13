"""The door of rank 0: accepts connections, and admits those that prove to know the secret."""

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
"""A connection counts as ended after so long without an answer of the other end's kernel."""

_PAUSE_SECONDS = 0.02


@final
class Door:
    """A ``listener`` and its connections; ``selector`` tells which of them can be read.

    The selector's data is one of these:

    - this door, for the listener,
    - a `Visitor`, for a connection that has not proved to know ``secret``,
    - a `PeerConnection` (link) for one that has; it counts as a visitor until it is `admitted`.

    No connection blocks the others.
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
        """The longest wait of the selector, so that late visitors are turned away in time."""
        return VISIT_SECONDS if self._visitors else None

    def let_in(self) -> None:
        """Accept a connection; if there are too many visitors, close another one."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it was closed again, or too many files are open: retry later
            time.sleep(_PAUSE_SECONDS)
            return
        visitor = Visitor(connection, self._secret)
        self._visitors[connection] = visitor
        self._selector.register(connection, selectors.EVENT_READ, visitor)
        if (one := crowding(self._visitors.values(), self._most)) is not None:
            self.turn_out(one.connection)
            self._strangers.turned_away(
                one.address, f"more than {self._most} connections have proved nothing"
            )

    def greet(self, visitor: Visitor, awaited: Collection[int]) -> None:
        """Read from a visitor; register its link once it has proved itself.

        A wrong message closes only this connection. It may also have been closed a moment ago, to
        make room.
        """
        if visitor.connection not in self._visitors:
            return
        try:
            link = visitor.hear(awaited, SILENCE_SECONDS)
        except HandshakeError as error:
            self.turn_out(visitor.connection)
            self._strangers.turned_away(visitor.address, str(error))
        except (OSError, EOFError):
            self.turn_out(visitor.connection)
        else:
            if link is not None:
                self._selector.modify(link.connection, selectors.EVENT_READ, link)

    def turn_away_the_late(self) -> None:
        """Close the connections of visitors that have not proved themselves in time."""
        for connection, visitor in list(self._visitors.items()):
            if time.monotonic() > visitor.deadline:
                self.turn_out(connection)
                self._strangers.turned_away(
                    visitor.address, f"it proved nothing in {VISIT_SECONDS:g} s"
                )

    def turn_out(self, connection: socket.socket) -> None:
        """Close a connection."""
        self._selector.unregister(connection)
        self._visitors.pop(connection, None)
        connection.close()

    def admitted(self, link: PeerConnection) -> None:
        """Drop a link from the visitors: it belongs to a rank now."""
        del self._visitors[link.connection]

    def shut(self) -> None:
        """Accept no connections any more."""
        self._selector.unregister(self._listener)
        self._listener.close()

    def close(self) -> None:
        """Close the listener and all visitors."""
        for connection in (*self._visitors, self._listener):
            connection.close()
