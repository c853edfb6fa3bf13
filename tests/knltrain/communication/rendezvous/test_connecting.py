from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from knltrain.communication.rendezvous.connecting import link_to_first
from knltrain.communication.rendezvous.handshake import HELLO_BYTES, answered, rank_in
from knltrain.errors import ExchangeTimeout

SECRET = b"of this job"


@contextmanager
def answering(answer: Callable[[socket.socket, bytes], None]) -> Iterator[tuple[str, int]]:
    """Somebody at an address who has heard a hello."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                with suppress(OSError):  # the other end may close before all is said
                    answer(connection, connection.recv(HELLO_BYTES, socket.MSG_WAITALL))
                    connection.recv(100)

        server = threading.Thread(target=serve)
        server.start()
        yield ("127.0.0.1", listener.getsockname()[1])
        server.join()


def right(connection: socket.socket, said: bytes) -> None:
    assert rank_in(said) == 7
    connection.sendall(answered(SECRET, said)[1])


def knows_another(connection: socket.socket, said: bytes) -> None:
    connection.sendall(answered(b"another", said)[1])


def gives_back(connection: socket.socket, said: bytes) -> None:
    connection.sendall(said[:48])


def dribbles(connection: socket.socket, said: bytes) -> None:
    """Slower than the limit in all, faster than it for each byte."""
    for _ in range(10):
        connection.sendall(b"x")
        time.sleep(0.1)


def test_first_address_where_somebody_knows_the_secret_is_taken() -> None:
    with answering(knows_another) as wrong, answering(right) as address:
        link = link_to_first([wrong, address], SECRET, 7, 10, 10)
        assert link.connection.getpeername() == address
        link.close()


@pytest.mark.parametrize("answer", [knows_another, gives_back, dribbles])
def test_who_does_not_prove_itself_in_time_is_not_the_first(
    answer: Callable[[socket.socket, bytes], None],
) -> None:
    with (
        answering(answer) as (host, port),
        pytest.raises(ExchangeTimeout, match=f"does not answer at {host}:{port}: expected it to"),
    ):
        link_to_first([(host, port)], SECRET, 7, 0.3, 10)
