"""Who comes to the door of rank 0; `test_peer_watch` has what strangers may say there."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator

import pytest

from knltrain.communication.rendezvous import visitor as module
from knltrain.communication.rendezvous.door import Door
from knltrain.communication.rendezvous.handshake import confirmed, hello
from knltrain.communication.rendezvous.peer_connection import PeerConnection
from knltrain.communication.rendezvous.visitor import Visitor

SECRET = b"this group's"


class Opened:
    """A door for rank 1 of two, to which one comes by `come`."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.selector = selectors.DefaultSelector()
        self.door = Door(listener, SECRET, 2, self.selector)
        self.links: list[PeerConnection] = []
        self.came: list[socket.socket] = []

    def come(self) -> socket.socket:
        self.came.append(socket.create_connection(self.address, 10))
        return self.came[-1]

    def serve(self) -> None:
        """Do what is to be done by now."""
        while ready := self.selector.select(0.05):
            for key, _ in ready:
                if key.data is self.door:
                    self.door.let_in()
                elif isinstance(key.data, Visitor):
                    self.door.greet(key.data, [1])
                elif key.data not in self.links:
                    self.links.append(key.data)
                else:
                    return
        self.door.turn_away_the_late()

    def close(self) -> None:
        self.door.close()
        self.selector.close()
        for each in self.came:
            each.close()


@pytest.fixture
def opened() -> Iterator[Opened]:
    made = Opened()
    yield made
    made.close()


def proved(opened: Opened) -> socket.socket:
    """One that has proved itself, and said a word of its own."""
    one, said = opened.come(), hello(1)
    one.sendall(said)
    opened.serve()
    _, proof = confirmed(SECRET, said, one.recv(100))
    one.sendall(proof + b"and more")
    return one


def test_who_has_proved_himself_is_a_link_from_then_on(opened: Opened) -> None:
    proved(opened)
    opened.serve()
    (link,) = opened.links
    assert link.rank == 1
    assert opened.door.pause_seconds is not None
    opened.door.admitted(link)
    assert opened.door.pause_seconds is None
    link.close()


def test_nobody_comes_once_it_is_shut(opened: Opened) -> None:
    opened.serve()
    opened.door.shut()
    with pytest.raises(OSError, match="refused"):
        opened.come()


def test_who_says_nothing_is_turned_away_in_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "VISIT_SECONDS", 0.1)
    silent = opened.come()
    deadline = time.monotonic() + 60
    while not caplog.messages:
        opened.serve()
        assert time.monotonic() < deadline
    assert silent.recv(1) == b""
    assert opened.door.pause_seconds is None
    assert "it proved nothing in" in caplog.text
