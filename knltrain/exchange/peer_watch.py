"""Who notices that a process on another computer is gone: connections that end when it does.

Rank 0 keeps a connection to every other rank. The kernel of a computer closes those of a process
that ends, however it ends; of a computer that is cut off, the kernel of rank 0 gives up after
`SILENCE_SECONDS`. Rank 0 tells all others. A rank that leaves in peace says so before it closes.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, final

from knltrain.errors import ExchangeTimeout, PeerLost

SILENCE_SECONDS = 10
_HELLO_SECONDS = 5.0
_PAUSE_SECONDS = 0.02
_LEAVES = -1
_MOST_BYTES = 4096

Lost = Callable[[PeerLost], None]
"""Called once, from a thread of the watch, with who is gone."""


class PeerWatch(ABC):
    """A rank's part in the watch of a group, until it is closed."""

    def __init__(self, rank: int, names: Sequence[str], on_lost: Lost) -> None:
        self._rank, self._names, self._on_lost = rank, names, on_lost
        self._has_lost = False
        self._closing = False

    @abstractmethod
    def close(self) -> None:
        """Leave in peace."""

    def _lose(self, rank: int, whereabouts: str) -> None:
        if not (self._closing or self._has_lost):
            self._has_lost = True
            self._on_lost(PeerLost(f"{self._names[rank]} is gone: {whereabouts}"))


@final
class FirstRank(PeerWatch):
    """Rank 0, to whose ``listener`` all others come with the same ``token``."""

    def __init__(
        self, listener: socket.socket, token: str, names: Sequence[str], on_lost: Lost
    ) -> None:
        super().__init__(0, names, on_lost)
        self._listener, self._token = listener, token
        self._whereabouts: dict[int, str] = {}
        self._links: dict[int, _Link] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="peer watch", daemon=True)
        self._thread.start()

    def await_all(self, limit_seconds: float) -> None:
        """Return when all ranks are here; ExchangeTimeout names those that do not come."""
        deadline = time.monotonic() + limit_seconds
        while missing := [r for r in range(1, len(self._names)) if r not in self._whereabouts]:
            if time.monotonic() > deadline:
                absent = ", ".join(self._names[rank] for rank in missing)
                raise ExchangeTimeout(
                    f"waited {limit_seconds:g} s in vain for {absent} of a new group: expected all "
                    "of its ranks to create it, and the network to let them come to "
                    f"{_address(self._listener)}"
                )
            time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """Leave in peace: from now on nobody watches."""
        self._closing = True
        with suppress(OSError):
            self._wake.send(b".")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._closing:
                for key, _ in self._selector.select():
                    if key.fileobj is self._listener:
                        self._let_in()
                    elif key.data is not None:
                        self._hear(key.data)
        finally:
            for link in self._links.values():
                link.tell(_LEAVES)
                link.close()
            for each in (self._listener, self._wake, self._woken, self._selector):
                each.close()

    def _let_in(self) -> None:
        connection, _ = self._listener.accept()
        link = _Link(connection)
        hello = link.first()
        if not hello or hello.get("token") != self._token:
            link.close()  # somebody else's, or nobody's
            return
        rank = hello["rank"]
        link.rank = rank
        self._links[rank] = link
        self._selector.register(connection, selectors.EVENT_READ, link)
        self._whereabouts[rank] = hello["where"]

    def _hear(self, link: _Link) -> None:
        said = link.messages()
        if said is not None and _LEAVES not in said:
            return
        self._selector.unregister(link.connection)
        del self._links[link.rank]
        link.close()
        if said is None:
            where = self._whereabouts[link.rank]
            self._lose(link.rank, where)
            for other in self._links.values():
                other.tell([link.rank, where])


@final
class OtherRank(PeerWatch):
    """A rank that comes to rank 0 at one of its ``addresses``, (host, port), with its ``token``.

    Raises ExchangeTimeout if none of them answers within ``limit_seconds``.
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[tuple[str, int]],
        token: str,
        names: Sequence[str],
        on_lost: Lost,
        limit_seconds: float,
    ) -> None:
        super().__init__(rank, names, on_lost)
        self._link = _Link(_connected(addresses, limit_seconds))
        self._link.tell({"token": token, "rank": rank, "where": _whereabouts()})
        self._thread = threading.Thread(target=self._serve, name="peer watch", daemon=True)
        self._thread.start()

    @property
    def own_address(self) -> str:
        """The address of this computer that leads to rank 0."""
        return str(self._link.connection.getsockname()[0])

    def close(self) -> None:
        """Leave in peace."""
        self._closing = True
        self._link.tell(_LEAVES)
        with suppress(OSError):
            self._link.connection.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._link.close()

    def _serve(self) -> None:
        while (said := self._link.messages()) is not None:
            for message in said:
                if message == _LEAVES:
                    return
                self._lose(*message)
        self._lose(0, "its connection has ended, and with it its process or its computer")


@final
class _Link:
    """A connection that carries JSON, a message per line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.rank = connection, 0
        self._received = b""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_SECONDS // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, SILENCE_SECONDS // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_SECONDS * 1000)

    def tell(self, message: Any) -> None:
        """Send a message, if the other end is still there."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> list[Any] | None:
        """Wait for messages; None when the connection has ended."""
        try:
            received = self.connection.recv(_MOST_BYTES)
        except OSError:
            return None
        if not received:
            return None
        *lines, self._received = (self._received + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def first(self) -> dict[str, Any]:
        """Return what the other end says first; nothing if that is not for us."""
        self.connection.settimeout(_HELLO_SECONDS)
        try:
            while (said := self.messages()) is not None:
                if said or len(self._received) > _MOST_BYTES:
                    return said[0] if said and isinstance(said[0], dict) else {}
        except ValueError:
            pass
        finally:
            self.connection.settimeout(None)
        return {}

    def close(self) -> None:
        self.connection.close()


def _connected(addresses: Sequence[tuple[str, int]], limit_seconds: float) -> socket.socket:
    deadline = time.monotonic() + limit_seconds
    while True:
        for address in addresses:
            with suppress(OSError):
                left = min(_HELLO_SECONDS, max(deadline - time.monotonic(), _PAUSE_SECONDS))
                connection = socket.create_connection(address, left)
                connection.settimeout(None)
                return connection
        if time.monotonic() > deadline:
            tried = ", ".join(f"{host}:{port}" for host, port in addresses)
            raise ExchangeTimeout(
                f"waited {limit_seconds:g} s in vain for the first rank of a new group at {tried}: "
                "expected the network to lead there"
            )
        time.sleep(_PAUSE_SECONDS)


def _whereabouts() -> str:
    return f"its process {os.getpid()} on {socket.gethostname()} has ended"


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{socket.gethostname() if host == '0.0.0.0' else host}, port {port}"
