"""What comes from other ranks and nodes: frames, messages, handshakes, encoded vectors, memory."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from knltrain.communication.collectives import GroupSegment
from knltrain.communication.control_message import MessageError, decoded, encoded
from knltrain.communication.internode.wire.formats import Bfloat16, Int8, TopK
from knltrain.communication.memory_box.local import SoftMemoryBox
from knltrain.communication.rendezvous.failure_detector import MemberDetector, RootDetector
from knltrain.communication.rendezvous.handshake import OTHER, Seal, confirmed, hello
from knltrain.communication.rendezvous.peer_connection import PeerConnection
from knltrain.errors import PeerLost, SegmentError
from knltrain.exchange.transports.segment import Segment
from vectorized_ops.reference import top_k, wire

from .rounds import altered, fuzzed

SECRET = b"of this job"
MESSAGES = (
    b'{"where": "process 1 on a", "card": {"host": "a", "config": {"b": [1, 2.5, null]}}}',
    b'{"rank": 1, "where": "process 1 on a", "left": true, "why": "no room"}',
    b'{"names": ["a", "b"]}',
    b'{"word": {"refused": null, "agreed": [[0, 0]], "token": "a"}}',
    b'{"beat": 123456789}',
    b'{"note": {"ask": 1, "stops": true}}',
)


@fuzzed(altered(MESSAGES))
def test_control_message(_: Path, text: bytes) -> None:
    try:
        word = decoded(text)
    except MessageError:
        return
    assert decoded(encoded(word)) == word


@fuzzed(st.tuples(st.lists(altered(MESSAGES), max_size=3), st.binary(max_size=40)))
def test_frames_of_a_link(_: Path, said: tuple[list[bytes], bytes]) -> None:
    texts, rest = said
    here, there = socket.socketpair()
    with here, there:
        connection = _Tcp(here)
        link = PeerConnection(connection, 10, Seal(b"a"), Seal(b"b"))  # type: ignore[arg-type]
        seal = Seal(b"b")
        for text in texts:
            there.sendall(len(text).to_bytes(4, "big") + seal.code(text) + text)
        there.sendall(rest)
        there.shutdown(socket.SHUT_WR)
        while link.messages() is not None:
            pass


class _Tcp:
    """A connection of which nothing but its bytes counts."""

    def __init__(self, connection: socket.socket) -> None:
        self.recv = connection.recv
        self.close = connection.close

    def setsockopt(self, *_: object) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    getpeername = getsockname


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["says", "greets", "proves", "has proved", "is in", "leaves"]),
        st.integers(0, 2**32 - 1) | st.integers(0, 3),
        altered(MESSAGES) | st.binary(max_size=100),
    ),
    max_size=8,
)


@fuzzed(STEPS, examples=25)
def test_strangers_and_ranks_in_any_order(_: Path, steps: list[tuple[str, int, bytes]]) -> None:
    """Whatever visitors say, in whatever state, the last rank gets in and the watch lives on."""
    lost: list[PeerLost] = []
    listener = socket.create_server(("127.0.0.1", 0))
    address = ("127.0.0.1", listener.getsockname()[1])
    first = RootDetector(listener, SECRET, ["a", "b", "c"], lost.append, lost.append)
    first.show_life(0.01)
    open_: list[socket.socket] = []
    try:
        for what, rank, said in steps:
            with suppress(OSError):
                _visit(address, what, rank, said, open_)
        deadline = time.monotonic() + 60
        while 2 not in first.cards:
            assert time.monotonic() < deadline
            with suppress(Exception):
                MemberDetector(2, [address], SECRET, ["a", "b", "c"], print, print, 5).close()
        assert first._thread.is_alive()
    finally:
        for each in open_:
            each.close()
        first.close()


def _visit(
    address: tuple[str, int], what: str, rank: int, said: bytes, open_: list[socket.socket]
) -> None:
    """One visitor of that kind; one that has proved itself is rank 1, and says anything then.

    One that is in has brought its card, and what it says it has sealed.
    """
    if what == "leaves":
        if open_:
            open_.pop().close()
        return
    connection = socket.create_connection(address, 10)
    open_.append(connection)
    if what == "says":
        connection.sendall(said)
        return
    greeting = hello(1 if what in ("has proved", "is in") else rank)
    connection.sendall(greeting)
    if what == "greets":
        return
    answer = connection.recv(48, socket.MSG_WAITALL)
    if what == "proves" or len(answer) < 48:
        connection.sendall(said[:32])
        return
    handshake, proof = confirmed(SECRET, greeting, answer)
    if what == "is in":
        seal = handshake.seal(OTHER)
        said = b"".join(
            len(text).to_bytes(4, "big") + seal.code(text) + text for text in (MESSAGES[0], said)
        )
    connection.sendall(proof + said)


COUNT = 300


@fuzzed(st.binary(min_size=64, max_size=4096), examples=40)
def test_encoded_vectors(_: Path, content: bytes) -> None:
    """Any bytes are added to the vector, and to nothing beside it."""
    for format_ in (Bfloat16(wire), Int8(wire), TopK(top_k, 0.1, COUNT)):
        encoded_ = np.zeros(format_.bytes_for(COUNT), np.uint8)
        part = np.frombuffer(content, np.uint8)[: encoded_.size]
        encoded_[: part.size] = part
        memory = np.zeros(COUNT + 128, np.float32)
        with suppress(IndexError), np.errstate(all="ignore"):
            format_.decode_add(encoded_, memory[64 : 64 + COUNT])
        assert not memory[:64].any()
        assert not memory[64 + COUNT :].any()


@fuzzed(st.binary(max_size=200), examples=30)
def test_memory_that_another_process_hands_out(_: Path, content: bytes) -> None:
    for made in (_segment_header(), _box_header(), _group_header(), b""):
        fd = os.memfd_create("fuzzed")
        changed = bytearray(made)
        changed[: len(content)] = content
        os.write(fd, bytes(changed))
        with suppress(SegmentError):
            GroupSegment.attach(fd, 2).leave(0)
        for attach in (Segment.attach, SoftMemoryBox.attach):
            with suppress(SegmentError):
                attach(fd).close()
        with suppress(OSError):
            os.close(fd)


def _segment_header() -> bytes:
    segment = Segment.create(10, 2, "memfd")
    header = os.pread(segment.fd, 200, 0)
    segment.close()
    return header


def _group_header() -> bytes:
    segment = GroupSegment.create(2)
    header = os.pread(segment.fd, 200, 0)
    segment.leave(0)
    return header


def _box_header() -> bytes:
    box = SoftMemoryBox.create(4096, "memfd")
    header = os.pread(box.fd, 200, 0)
    box.close()
    return header
