from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator

import pytest

from knltrain.communication.rendezvous.handshake import HandshakeError, confirmed, hello
from knltrain.communication.rendezvous.visitor import REPORT_SECONDS, Visitor, VisitorLog, crowding

SECRET = b"of this job"


@pytest.fixture
def both() -> Iterator[tuple[Visitor, socket.socket]]:
    """A visitor, and the other end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        visitor = Visitor(server.accept()[0], SECRET)
    other.settimeout(10)
    yield visitor, other
    visitor.connection.close()
    other.close()


def hear(visitor: Visitor, awaited: range = range(1, 4)) -> bool:
    """Wait for what it says; tell whether it has proved itself."""
    visitor.connection.settimeout(10)
    return visitor.hear(awaited, 10) is not None


def test_who_knows_the_secret_is_given_a_link_however_its_words_are_cut(
    both: tuple[Visitor, socket.socket],
) -> None:
    visitor, other = both
    said = hello(2)
    other.sendall(said[:5])
    assert not hear(visitor)
    other.sendall(said[5:])
    assert not hear(visitor)
    _, proof = confirmed(SECRET, said, other.recv(100))
    other.sendall(proof + b"more")
    assert hear(visitor)
    assert (visitor.rank, visitor.has_proved) == (2, True)
    assert visitor.connection.recv(10) == b"more"


@pytest.mark.parametrize("said", [b"[" * 100_000, b"GET / HTTP/1.1\r\n" * 9, bytes(1000)])
def test_stranger_is_known_before_anything_is_parsed(
    both: tuple[Visitor, socket.socket], said: bytes
) -> None:
    visitor, other = both
    other.sendall(said)
    with pytest.raises(HandshakeError, match="does not speak the protocol"):
        hear(visitor)


def test_who_knows_all_but_the_secret_is_refused(both: tuple[Visitor, socket.socket]) -> None:
    visitor, other = both
    other.sendall(hello(1))
    assert not hear(visitor)
    answer = other.recv(100)
    other.sendall(answer[-32:])
    with pytest.raises(HandshakeError, match="does not know the secret"):
        hear(visitor)


@pytest.mark.parametrize("rank", [0, 4, 2**31, 2**32 - 1])
def test_rank_that_is_not_awaited_gets_no_answer(
    both: tuple[Visitor, socket.socket], rank: int
) -> None:
    visitor, other = both
    other.sendall(hello(rank))
    with pytest.raises(HandshakeError, match=f"rank {rank}, which is not awaited"):
        hear(visitor)


def test_end_of_a_connection_is_told(both: tuple[Visitor, socket.socket]) -> None:
    visitor, other = both
    # A reset, rather than an end in peace.
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    with pytest.raises((OSError, EOFError)):
        hear(visitor)


def test_nothing_to_hear_yet_is_no_error(both: tuple[Visitor, socket.socket]) -> None:
    visitor, _ = both
    assert visitor.hear(range(1, 4), 10) is None


def test_of_too_many_the_oldest_of_the_busiest_address_has_to_go() -> None:
    made = []
    for address, has_proved in (("a", False), ("b", True), ("b", False), ("b", False)):
        visitor = Visitor(socket.socket(), SECRET)
        visitor.address, visitor.has_proved = address, has_proved
        made.append(visitor)
    assert crowding(made, 3) is None
    assert crowding(made, 2) is made[2]
    for visitor in made:
        visitor.connection.close()


def test_strangers_are_logged_once_in_a_while_and_counted(
    both: tuple[Visitor, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    log = VisitorLog(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            log.turned_away(both[0].address, "it is rude")
        now[0] += REPORT_SECONDS
        log.turned_away(both[0].address, "it is silent")
    assert caplog.messages == [
        "turned away a stranger from 127.0.0.1: it is rude",
        "turned away a stranger from 127.0.0.1: it is silent (and 999 others before)",
    ]
