from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from knltrain.communication.control_message import LONGEST_BYTES, encoded
from knltrain.communication.rendezvous.handshake import Seal
from knltrain.communication.rendezvous.peer_connection import PeerConnection

MINE, OTHERS = b"my key", b"the other's key"


@pytest.fixture
def both() -> Iterator[tuple[PeerConnection, socket.socket]]:
    """A link, and the other end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        link = PeerConnection(server.accept()[0], 10, Seal(MINE), Seal(OTHERS))
    yield link, other
    link.close()
    other.close()


def frame(seal: Seal, text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + seal.code(text) + text


def test_messages_come_whole_however_they_are_cut(
    both: tuple[PeerConnection, socket.socket],
) -> None:
    link, other = both
    seal = Seal(OTHERS)
    sent = b"".join(frame(seal, text) for text in (b'{"rank": 1}', b"[2, 3]", b"4"))
    other.sendall(sent[:40])
    assert link.messages() == [{"rank": 1}]
    other.sendall(sent[40:])
    assert link.messages() == [[2, 3], 4]
    link.tell({"a": "b"})
    assert other.recv(100) == frame(Seal(MINE), b'{"a": "b"}')


def ends(both: tuple[PeerConnection, socket.socket], said: bytes) -> bool:
    link, other = both
    other.sendall(said)
    other.shutdown(socket.SHUT_WR)
    while (found := link.messages()) == []:
        pass
    return found is None


@pytest.mark.parametrize(
    "text", [b"GET /", b"\xff", b"[" * 100_000, b"", b'{"a": NaN}'], ids=lambda text: text[:5]
)
def test_frame_that_is_no_message_ends_it(
    both: tuple[PeerConnection, socket.socket], text: bytes
) -> None:
    assert ends(both, frame(Seal(OTHERS), text))


@pytest.mark.parametrize(
    "said",
    [
        frame(Seal(b"a stranger's key"), b"1"),
        frame(Seal(MINE), b"1"),
        struct.pack(">I", LONGEST_BYTES + 1) + bytes(16),
        b"[" * 5000,
    ],
    ids=["a stranger's", "given back", "too long", "none"],
)
def test_frame_that_the_other_end_has_not_sent_ends_it(
    both: tuple[PeerConnection, socket.socket], said: bytes
) -> None:
    assert ends(both, said)


def test_frame_that_is_played_again_ends_it(both: tuple[PeerConnection, socket.socket]) -> None:
    link, other = both
    said = frame(Seal(OTHERS), b"1")
    other.sendall(said)
    assert link.messages() == [1]
    other.sendall(said)
    assert link.messages() is None


def test_threads_may_tell_at_once(both: tuple[PeerConnection, socket.socket]) -> None:
    link, other = both
    words = [["x" * 100_000, number] for number in range(8)]
    threads = [threading.Thread(target=link.tell, args=[word]) for word in words]
    for thread in threads:
        thread.start()
    there = PeerConnection(other, 10, Seal(OTHERS), Seal(MINE))
    heard: list[Any] = []
    while len(heard) < len(words):
        found = there.messages()
        assert found is not None
        heard += found
    assert sorted(heard) == words
    for thread in threads:
        thread.join()


def test_end_of_the_other_end_is_told_and_telling_it_more_is_no_error(
    both: tuple[PeerConnection, socket.socket],
) -> None:
    link, other = both
    other.close()
    assert link.messages() is None
    for _ in range(3):
        link.tell({"a": "b"})


def test_longest_message_goes_through(both: tuple[PeerConnection, socket.socket]) -> None:
    link, other = both
    word = "x" * (LONGEST_BYTES - 2)
    assert len(encoded(word)) == LONGEST_BYTES
    teller = threading.Thread(target=link.tell, args=[word])
    teller.start()
    there = PeerConnection(other, 10, Seal(OTHERS), Seal(MINE))
    while (heard := there.messages()) == []:
        pass
    assert heard == [word]
    teller.join()


def test_forked_process_keeps_no_copy(both: tuple[PeerConnection, socket.socket]) -> None:
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
