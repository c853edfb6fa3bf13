"""A node's door: whom it lets in, and what it gives."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from knltrain.communication.rendezvous.handshake import answered, hello
from knltrain.errors import PeerLost
from knltrain.input.distributed import client as client_module
from knltrain.input.distributed import server as server_module
from knltrain.input.distributed.client import REQUEST, Doors, PartClient
from knltrain.input.distributed.parts import Part
from knltrain.input.distributed.server import PartServer

from .conftest import KEY

PART = Part(4, np.arange(12, dtype=np.uint8), None, 4)
"""Records 4 to 6."""


class Opened:
    """A server, and the doors as node 0 of 2 knows them."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = ("127.0.0.1", listener.getsockname()[1])
        self.server = PartServer(listener, KEY, [PART, PART], 2)

    def client(self, key: bytes = KEY, node: int = 0, limit_seconds: float = 20.0) -> PartClient:
        return PartClient(Doors(node, (self.address, self.address), key, limit_seconds), 1)


@pytest.fixture
def opened() -> Iterator[Opened]:
    found = Opened()
    yield found
    found.server.close()


def fetched(client: PartClient, rows: list[int]) -> list[bytes]:
    client.ask(0, np.array(rows))
    room = [bytearray(size) for size in client.sizes(len(rows))]
    client.receive([memoryview(each) for each in room])
    return [bytes(each) for each in room]


def assert_let_go(connection: socket.socket) -> None:
    connection.settimeout(20)
    with suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_records_come_in_the_order_in_which_they_are_asked_for(opened: Opened) -> None:
    client = opened.client()
    for rows in ([6, 4], [5], [4] * 1500):
        assert fetched(client, rows) == [bytes(PART.record(row)) for row in rows]
    client.close()


def test_who_does_not_know_the_key_is_turned_away(opened: Opened) -> None:
    with pytest.raises(PeerLost, match=r"node 1.*secret"):
        opened.client(key=b"another")
    with pytest.raises(PeerLost, match=r"node 1.*is gone"):
        opened.client(node=2)
    with socket.create_connection(opened.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n" + bytes(60))
        assert_let_go(stranger)
    with socket.create_connection(opened.address) as replaying:
        said = hello(0)
        replaying.sendall(said)
        answered(KEY, said)
        replaying.recv(1000)
        replaying.sendall(bytes(32))
        assert_let_go(replaying)
    assert fetched(opened.client(), [5]) == [bytes(PART.record(5))]


def test_strangers_who_say_nothing_are_few_and_let_go(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "VISIT_SECONDS", 0.2)
    with socket.create_connection(opened.address) as silent:
        assert_let_go(silent)


@pytest.mark.parametrize(
    ("half", "rows", "said"),
    [(0, [3], "does not hold picture 3 of half 0"), (1, [4, 7], "picture 7"), (2, [4], "half 2")],
)
def test_what_it_does_not_hold_is_refused(
    half: int, rows: list[int], said: str, opened: Opened
) -> None:
    client = opened.client()
    client.ask(half, np.array(rows))
    with pytest.raises(PeerLost, match=f"node 1.*refuses.*{said}"):
        client.sizes(len(rows))
    client.close()


def test_too_many_pictures_at_once_are_refused(opened: Opened) -> None:
    client = opened.client()
    client._send(REQUEST.pack(0, 2**31))
    with pytest.raises(PeerLost, match="refuses: 2147483648 pictures"):
        client.sizes(1)


def test_a_door_that_is_closed_is_a_node_that_is_gone(opened: Opened) -> None:
    client = opened.client()
    assert fetched(client, [4])
    opened.server.close()
    with pytest.raises(PeerLost, match=r"node 1.*127\.0\.0\.1.* is gone"):
        fetched(client, [4])
    with pytest.raises(PeerLost, match="is gone"):
        opened.client()


def test_a_node_that_does_not_answer_is_told_after_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "_FIRST_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = ("127.0.0.1", deaf.getsockname()[1])
        with pytest.raises(PeerLost, match="has not answered"):
            PartClient(Doors(0, (address, address), KEY, 0.1), 1)


def test_a_door_stays_open_until_the_others_have_left(opened: Opened) -> None:
    staying = opened.client()
    staying.stay()
    waiting = threading.Thread(target=opened.server.await_others, args=(1, lambda: False))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    assert fetched(opened.client(), [4])
    staying.close()
    waiting.join(20)
    assert not waiting.is_alive()


def test_the_wait_for_others_ends_where_one_is_lost(opened: Opened) -> None:
    begin = time.monotonic()
    opened.server.await_others(1, lambda: time.monotonic() > begin + 0.05)
