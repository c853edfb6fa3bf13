"""The handshake: both ends of a connection prove that they know the same secret, unsaid.

The client sends its rank and a nonce. Rank 0 answers with a nonce of its own and a proof; the
client answers with a proof in turn. A proof is an HMAC-SHA256, keyed by the secret, of all bytes
sent before and of the role of its sender. So none can be replayed, on this connection or another.
All messages have a fixed length, so nothing from a stranger is parsed.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from typing import Final, final

FIRST: Final = b"first"
OTHER: Final = b"other"
"""The roles: rank 0, and the client that connects to it."""

_MAGIC = b"knltrain control 1\n"
_RANK = struct.Struct(">I")
_NONCE_BYTES = 16

HELLO_BYTES: Final = len(_MAGIC) + _RANK.size + _NONCE_BYTES
PROOF_BYTES: Final = 32
ANSWER_BYTES: Final = _NONCE_BYTES + PROOF_BYTES
CODE_BYTES: Final = 16


class HandshakeError(Exception):
    """The other end is a stranger; the message gives the reason."""


@final
class Seal:
    """Authentication codes of the frames that one end sends, in their order."""

    def __init__(self, key: bytes) -> None:
        self._key, self._number = key, 0

    def code(self, payload: bytes) -> bytes:
        """Return the code of the next frame, ``CODE_BYTES`` long."""
        self._number += 1
        return _mac(self._key, self._number.to_bytes(8, "big") + payload)[:CODE_BYTES]


@final
class Handshake:
    """The keys that both ends derive from the secret and from the bytes that they have sent."""

    def __init__(self, secret: bytes, hello: bytes, nonce: bytes) -> None:
        self._key = _mac(secret, hello + nonce)

    def proof(self, role: bytes) -> bytes:
        """Return the proof of an end in this role; only one with the secret can compute it."""
        return _mac(self._key, b"proof of " + role)

    def check(self, role: bytes, said: bytes) -> None:
        """Raise HandshakeError unless ``said`` is the proof of the other end in its role."""
        if not hmac.compare_digest(said, self.proof(role)):
            raise HandshakeError("it does not know the secret of this job")

    def seal(self, role: bytes) -> Seal:
        """Return the seal of the frames of one end."""
        return Seal(_mac(self._key, b"frames of " + role))


def hello(rank: int) -> bytes:
    """Return the first message of the client that connects as ``rank``."""
    return _MAGIC + _RANK.pack(rank) + secrets.token_bytes(_NONCE_BYTES)


def rank_in(said: bytes) -> int:
    """Return the rank in a hello; HandshakeError if it is no hello."""
    if not said.startswith(_MAGIC):
        raise HandshakeError("it does not speak the protocol of this version of knltrain")
    return int(_RANK.unpack_from(said, len(_MAGIC))[0])


def answered(secret: bytes, said: bytes) -> tuple[Handshake, bytes]:
    """Return the handshake that answers a hello, and the answer."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    handshake = Handshake(secret, said, nonce)
    return handshake, nonce + handshake.proof(FIRST)


def confirmed(secret: bytes, said: bytes, answer: bytes) -> tuple[Handshake, bytes]:
    """Return the handshake for a hello and its answer, and the confirmation to send.

    Raises HandshakeError if a stranger has answered.
    """
    handshake = Handshake(secret, said, answer[:_NONCE_BYTES])
    handshake.check(FIRST, answer[_NONCE_BYTES:])
    return handshake, handshake.proof(OTHER)


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")
