"""How a rank connects to rank 0, which may be at one of several addresses."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress

from knltrain.communication.rendezvous.handshake import (
    ANSWER_BYTES,
    FIRST,
    OTHER,
    HandshakeError,
    confirmed,
    hello,
)
from knltrain.communication.rendezvous.peer_connection import PeerConnection
from knltrain.errors import ExchangeTimeout


def link_to_first(
    addresses: Sequence[tuple[str, int]],
    secret: bytes,
    rank: int,
    attempt_seconds: float,
    silence_seconds: int,
) -> PeerConnection:
    """Connect as ``rank`` to the first address, (host, port), whose listener knows the secret.

    Another program may listen at an address, and refuse or not answer, so each address has
    ``attempt_seconds``. Raises ExchangeTimeout if none of them accepts this rank.
    """
    for address in addresses:
        with suppress(OSError, HandshakeError):
            connection = socket.create_connection(address, attempt_seconds)
            try:
                deadline = time.monotonic() + attempt_seconds
                return _met(connection, secret, rank, deadline, silence_seconds)
            except BaseException:
                connection.close()
                raise
    tried = ", ".join(f"{host}:{port}" for host, port in addresses)
    raise ExchangeTimeout(
        f"the first rank of a new group does not answer at {tried}: expected it to be there, to "
        "know the same secret, and the network to lead there"
    )


def _met(
    connection: socket.socket, secret: bytes, rank: int, deadline: float, silence_seconds: int
) -> PeerConnection:
    """Return a link to rank 0; HandshakeError if another answers, OSError if none in time."""
    said = hello(rank)
    connection.sendall(said)
    answer = b""
    while len(answer) < ANSWER_BYTES:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        received = connection.recv(ANSWER_BYTES - len(answer))
        if not received:
            raise HandshakeError("it has closed the connection")
        answer += received
    handshake, proof = confirmed(secret, said, answer)
    connection.sendall(proof)
    connection.settimeout(None)
    return PeerConnection(connection, silence_seconds, handshake.seal(OTHER), handshake.seal(FIRST))
