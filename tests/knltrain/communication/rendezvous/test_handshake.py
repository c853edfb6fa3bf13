from __future__ import annotations

import pytest

from knltrain.communication.rendezvous.handshake import (
    ANSWER_BYTES,
    CODE_BYTES,
    FIRST,
    HELLO_BYTES,
    OTHER,
    PROOF_BYTES,
    HandshakeError,
    Seal,
    answered,
    confirmed,
    hello,
    rank_in,
)

SECRET = b"of this job"


def test_both_ends_that_know_the_secret_agree() -> None:
    said = hello(3)
    assert (len(said), rank_in(said)) == (HELLO_BYTES, 3)
    first, answer = answered(SECRET, said)
    other, proof = confirmed(SECRET, said, answer)
    assert (len(answer), len(proof)) == (ANSWER_BYTES, PROOF_BYTES)
    first.check(OTHER, proof)
    assert first.seal(OTHER).code(b"a") == other.seal(OTHER).code(b"a")


def test_who_does_not_know_the_secret_is_refused_at_either_end() -> None:
    said = hello(3)
    _, answer = answered(b"another", said)
    with pytest.raises(HandshakeError, match="does not know the secret"):
        confirmed(SECRET, said, answer)
    first, answer = answered(SECRET, said)
    other = confirmed(b"another", said, answered(b"another", said)[1])[1]
    with pytest.raises(HandshakeError, match="does not know the secret"):
        first.check(OTHER, other)


def test_proof_cannot_be_given_back_nor_played_again_nor_used_for_another_rank() -> None:
    said = hello(3)
    first, answer = answered(SECRET, said)
    _, proof = confirmed(SECRET, said, answer)
    for stolen in (answer[-PROOF_BYTES:], b"", bytes(PROOF_BYTES), proof[:-1]):
        with pytest.raises(HandshakeError):
            first.check(OTHER, stolen)
    again, _ = answered(SECRET, said)
    with pytest.raises(HandshakeError):
        again.check(OTHER, proof)
    as_another = said[:-17] + b"\x04" + said[-16:]
    assert rank_in(as_another) == 4
    with pytest.raises(HandshakeError):
        confirmed(SECRET, as_another, answer)


def test_hello_of_another_protocol_is_told() -> None:
    for said in (b"GET / HTTP/1.1\r\n" + bytes(60), b"[" * HELLO_BYTES, bytes(HELLO_BYTES)):
        with pytest.raises(HandshakeError, match="does not speak the protocol"):
            rank_in(said)


def test_code_is_of_one_frame_in_one_place_from_one_end() -> None:
    handshake, _ = answered(SECRET, hello(1))
    own, theirs = handshake.seal(FIRST), handshake.seal(OTHER)
    codes = {own.code(b"a"), own.code(b"a"), own.code(b"b"), theirs.code(b"a")}
    assert len(codes) == 4
    assert {len(code) for code in codes} == {CODE_BYTES}
    assert Seal(b"k").code(b"") == Seal(b"k").code(b"")
