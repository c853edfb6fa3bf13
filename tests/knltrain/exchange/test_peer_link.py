from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from knltrain.exchange.peer_link import PeerLink


@pytest.fixture
def both() -> Iterator[tuple[PeerLink, socket.socket]]:
    """A link, and the other end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        link = PeerLink(server.accept()[0], 10)
    yield link, other
    link.close()
    other.close()


def test_messages_come_whole_however_they_are_cut(both: tuple[PeerLink, socket.socket]) -> None:
    link, other = both
    other.sendall(b'{"rank": 1}\n[2')
    assert link.messages() == [{"rank": 1}]
    other.sendall(b", 3]\n4\n")
    assert link.messages() == [[2, 3], 4]
    link.tell({"a": "b"})
    assert other.recv(100) == b'{"a": "b"}\n'


@pytest.mark.parametrize("said", [b"GET /\n", b"\xff\n", b"[" * 5000])
def test_what_is_no_message_ends_it(both: tuple[PeerLink, socket.socket], said: bytes) -> None:
    link, other = both
    other.sendall(said)
    other.shutdown(socket.SHUT_WR)
    while (found := link.messages()) == []:
        pass
    assert found is None


def test_end_of_the_other_end_is_told_and_telling_it_more_is_no_error(
    both: tuple[PeerLink, socket.socket],
) -> None:
    link, other = both
    other.close()
    assert link.messages() is None
    for _ in range(3):
        link.tell({"a": "b"})


def test_forked_process_keeps_no_copy(both: tuple[PeerLink, socket.socket]) -> None:
    link, other = both
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # lives until the pipe is closed
        os._exit(0)
    os.close(read)
    link.close()
    other.settimeout(10)
    assert other.recv(1) == b""
    os.close(write)
    os.waitpid(child, 0)
