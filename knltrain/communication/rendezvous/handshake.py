"""How both ends of a connection prove that they know the same secret, without saying it.

Who comes says its rank and a nonce. Rank 0 answers with a nonce of its own and a proof, the other
one with a proof in turn. A proof is an HMAC-SHA256, under the secret, of all that was said and of
the role of who gives it: none can be played back, on this connection or on another. All of it has
a fixed length, so that nothing of a stranger's is parsed.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from typing import Final, final

FIRST: Final = b"first"
OTHER: Final = b"other"
"""The roles: rank 0, and who comes to it."""

_MAGIC = b"knltrain control 1\n"
_RANK = struct.Struct(">I")
_NONCE_BYTES = 16

HELLO_BYTES: Final = len(_MAGIC) + _RANK.size + _NONCE_BYTES
PROOF_BYTES: Final = 32
ANSWER_BYTES: Final = _NONCE_BYTES + PROOF_BYTES
CODE_BYTES: Final = 16


class HandshakeError(Exception):
    """The other end is a stranger; the message says by what that is known."""


@final
class Seal:
    """Codes for the frames that one end sends, in their order: what nobody else can have sent."""

    def __init__(self, key: bytes) -> None:
        self._key, self._number = key, 0

    def code(self, payload: bytes) -> bytes:
        """Return the code of the next frame, ``CODE_BYTES`` long."""
        self._number += 1
        return _mac(self._key, self._number.to_bytes(8, "big") + payload)[:CODE_BYTES]


@final
class Handshake:
    """What follows from the secret and what both ends have said, the same at both."""

    def __init__(self, secret: bytes, hello: bytes, nonce: bytes) -> None:
        self._key = _mac(secret, hello + nonce)

    def proof(self, role: bytes) -> bytes:
        """Return what only an end with the secret can say in this role."""
        return _mac(self._key, b"proof of " + role)

    def check(self, role: bytes, said: bytes) -> None:
        """HandshakeError unless the other end has proved itself in its role."""
        if not hmac.compare_digest(said, self.proof(role)):
            raise HandshakeError("it does not know the secret of this job")

    def seal(self, role: bytes) -> Seal:
        """The seal of the frames of one end."""
        return Seal(_mac(self._key, b"frames of " + role))


def hello(rank: int) -> bytes:
    """What the one says first that comes as ``rank``."""
    return _MAGIC + _RANK.pack(rank) + secrets.token_bytes(_NONCE_BYTES)


def rank_in(said: bytes) -> int:
    """The rank in a hello; HandshakeError where it is none."""
    if not said.startswith(_MAGIC):
        raise HandshakeError("it does not speak the protocol of this version of knltrain")
    return int(_RANK.unpack_from(said, len(_MAGIC))[0])


def answered(secret: bytes, said: bytes) -> tuple[Handshake, bytes]:
    """Return the handshake that answers a hello, and the answer."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    handshake = Handshake(secret, said, nonce)
    return handshake, nonce + handshake.proof(FIRST)


def confirmed(secret: bytes, said: bytes, answer: bytes) -> tuple[Handshake, bytes]:
    """Return the handshake for a hello and its answer, and what to say to that.

    HandshakeError if it was a stranger that answered.
    """
    handshake = Handshake(secret, said, answer[:_NONCE_BYTES])
    handshake.check(FIRST, answer[_NONCE_BYTES:])
    return handshake, handshake.proof(OTHER)


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")
