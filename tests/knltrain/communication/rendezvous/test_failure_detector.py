from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import final

import pytest

from knltrain.communication.control_message import encoded
from knltrain.communication.rendezvous.failure_detector import MemberDetector, RootDetector
from knltrain.communication.rendezvous.handshake import ANSWER_BYTES, confirmed, hello
from knltrain.communication.rendezvous.handshake import OTHER as OTHER_END
from knltrain.communication.rendezvous.heartbeat import Figures
from knltrain.communication.rendezvous.peer_connection import PeerConnection
from knltrain.communication.rendezvous.peer_news import last_words
from knltrain.communication.rendezvous.visitor import MOST_VISITORS
from knltrain.errors import ExchangeTimeout, PeerLost

NAMES = ["rank 3", "rank 5", "rank 7"]
SECRET = b"this group's"
OTHER = """
import os, sys, time
from functools import partial
from knltrain.communication.rendezvous.failure_detector import MemberDetector

say = partial(print, flush=True)
port, secret = int(sys.argv[1]), sys.argv[2].encode()
names = ["rank 3", "rank 5", "rank 7"]
other = MemberDetector(1, [("127.0.0.1", port)], secret, names, say, say, 10)
say("here")
if len(sys.argv) > 3:
    other.show_life(float(sys.argv[3]))
if sys.stdin.readline() == "fork\\n":
    if os.fork():
        os.kill(os.getpid(), 9)
    time.sleep(2)
    os._exit(0)
other.close()
"""


class Watched:
    """Rank 0 and rank 2 of a group here; rank 1 is a process of its own."""

    def __init__(self) -> None:
        self.lost: dict[int, list[str]] = {0: [], 2: []}
        self.left: dict[int, list[str]] = {0: [], 2: []}
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.first = RootDetector(listener, SECRET, NAMES, *self.ears(0))

    def ears(self, rank: int) -> tuple[Callable[[PeerLost], None], Callable[[PeerLost], None]]:
        return (
            lambda error: self.lost[rank].append(str(error)),
            lambda error: self.left[rank].append(str(error)),
        )

    def join(self, *limit_seconds: str) -> None:
        self.process = self.start(SECRET, *limit_seconds)
        assert self.heard() == "here"
        addresses = [("127.0.0.1", self.port)]
        self.third = MemberDetector(2, addresses, SECRET, NAMES, *self.ears(2), 10)
        self.first.await_all(10)

    def heard(self) -> str:
        """What rank 1 has heard next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def start(self, secret: bytes, *limit_seconds: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", OTHER, str(self.port), secret, *limit_seconds],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def watched() -> Iterator[Watched]:
    group = Watched()
    yield group
    for part in ("third", "first"):
        if hasattr(group, part):
            getattr(group, part).close()
    if hasattr(group, "process"):
        group.process.kill()  # also where it is stopped
        group.process.communicate()


def _soon(look: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_rank_is_told_to_all_others_at_once(watched: Watched) -> None:
    watched.join()
    watched.process.kill()
    killed = time.monotonic()
    _soon(lambda: bool(watched.lost[0] and watched.lost[2]))
    assert time.monotonic() - killed < 1
    text = f"rank 5 is gone: its process {watched.process.pid} on {socket.gethostname()} has ended"
    assert watched.lost == {0: [text], 2: [text]}


def test_rank_that_stands_still_is_told_to_all_others_after_the_limit(watched: Watched) -> None:
    watched.join("1")
    watched.first.show_life(1.0)
    watched.third.show_life(60.0)
    _soon(lambda: watched.first._links[1].identity > 0)
    watched.process.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    _soon(lambda: bool(watched.lost[0] and watched.lost[2]), 60)
    assert time.monotonic() - stopped >= 1
    (told,) = watched.lost[0]
    assert told.startswith(
        f"rank 5 is gone: its process {watched.process.pid} is stopped (state T), and has given no "
        "sign of life for 1 s: "
    )
    assert watched.lost[2] == [told]
    watched.process.send_signal(signal.SIGCONT)
    assert watched.heard().startswith("rank 3 is gone: its connection")


@final
class Sent(Figures):
    """Sends each rank other numbers, and keeps what has come."""

    def __init__(self, own: int) -> None:
        self.own = own
        self.come: dict[int, list[float]] = {}

    def for_rank(self, rank: int) -> Sequence[float]:
        return (self.own, 10 * self.own + rank, 0.5)

    def from_rank(self, rank: int, figures: Sequence[float]) -> None:
        self.come[rank] = list(figures)


def test_heartbeats_carry_numbers_both_ways(watched: Watched) -> None:
    watched.join("1")  # rank 1 sends none, and drops what it gets
    first, third = Sent(7), Sent(9)
    watched.first.show_life(1.0, first)
    watched.third.show_life(1.0, third)
    _soon(lambda: bool(first.come and third.come))
    assert first.come == {2: [9.0, 90.0, 0.5]}
    assert third.come == {0: [7.0, 72.0, 0.5]}
    assert watched.lost == {0: [], 2: []}


@pytest.mark.slow
def test_first_rank_that_stands_still_is_told_by_the_others(watched: Watched) -> None:
    watched.join()
    watched.first.show_life(60.0)
    watched.third.show_life(1.0)
    _soon(lambda: watched.third._link.identity > 0)
    assert watched.first._heartbeat is not None
    watched.first._heartbeat.close()
    _soon(lambda: bool(watched.lost[2]), 60)
    says = f"rank 3 is gone: its process {os.getpid()} has given no sign of life for 1 s: "
    assert watched.lost[2][0].startswith(says)


def test_rank_that_has_given_no_sign_of_life_yet_is_not_expected_to(watched: Watched) -> None:
    """It may be reading its checkpoint."""
    watched.join()
    watched.first.show_life(0.1)
    time.sleep(0.5)
    assert watched.lost == {0: [], 2: []}


@pytest.mark.slow
def test_killed_rank_is_told_although_a_process_forked_of_it_lives(watched: Watched) -> None:
    watched.join()
    assert watched.process.stdin is not None
    watched.process.stdin.write("fork\n")
    watched.process.stdin.flush()
    _soon(lambda: bool(watched.lost[0] and watched.lost[2]), 1.5)


def test_rank_that_leaves_in_peace_is_not_lost(watched: Watched) -> None:
    watched.join()
    assert watched.process.communicate("leave\n", timeout=30) == ("", None)
    _soon(lambda: bool(watched.left[0] and watched.left[2]))
    text = f"rank 5 has left the group (process {watched.process.pid} on {socket.gethostname()})"
    assert watched.left == {0: [text], 2: [text]}
    watched.third.close()
    watched.first.close()
    assert watched.lost == {0: [], 2: []}


def test_rank_that_does_not_leave_in_peace_is_lost(watched: Watched) -> None:
    watched.join()
    watched.third.close(in_peace=False)
    _soon(lambda: bool(watched.lost[0]))
    assert watched.lost[0][0].startswith("rank 7 is gone")
    assert watched.left[0] == []


@pytest.mark.parametrize("in_peace", [True, False])
def test_first_rank_that_goes_is_told(watched: Watched, in_peace: bool) -> None:
    watched.join()
    watched.first.close(in_peace)
    told = watched.left if in_peace else watched.lost
    _soon(lambda: bool(told[2]))
    says = "has left the group" if in_peace else "is gone: its connection, and with it its process"
    assert told[2][0].startswith(f"rank 3 {says}")
    assert watched.heard().startswith(f"rank 3 {says}")
    assert watched.process.communicate("leave\n", timeout=30) == ("", None)


def _is_turned_away(visitor: socket.socket, said: bytes) -> bool:
    """Whether the connection ends, and all that it got was the first words of a handshake."""
    heard = b""
    try:
        visitor.settimeout(30)
        visitor.sendall(said)
        visitor.shutdown(socket.SHUT_WR)
        while more := visitor.recv(100):
            heard += more
    except TimeoutError:
        return False
    except OSError:
        pass  # it has ended before
    return len(heard) <= ANSWER_BYTES


def test_strangers_are_not_let_in_and_hold_up_nobody(watched: Watched) -> None:
    silent = socket.create_connection(("127.0.0.1", watched.port))
    stranger = watched.start(b"another group's")
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"x" * 10_000, b""):
        with socket.create_connection(("127.0.0.1", watched.port)) as visitor:
            assert _is_turned_away(visitor, said)
    output, _ = stranger.communicate("leave\n", timeout=30)
    assert (output, stranger.returncode) == ("", 1)
    with pytest.raises(ExchangeTimeout, match=r"0\.1 s in vain for rank 5, rank 7 of a new group"):
        watched.first.await_all(0.1)
    watched.join()
    assert watched.lost == {0: [], 2: []}
    silent.close()


def test_nothing_that_strangers_say_ends_the_watch(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    said = (b"[" * 100_000, b"{}\n", b'{"token": "' + SECRET + b'", "rank": [1]}\n', bytes(200))
    for each in (*said, hello(1) + bytes(32), hello(7), hello(2)[:30]):
        with socket.create_connection(("127.0.0.1", watched.port)) as visitor:
            assert _is_turned_away(visitor, each)
    watched.join()
    assert watched.lost == {0: [], 2: []}
    (told,) = caplog.messages
    assert told.startswith("turned away a stranger from 127.0.0.1: it does not speak the protocol")


def test_crowd_of_silent_strangers_keeps_nobody_out(watched: Watched) -> None:
    address = ("127.0.0.1", watched.port)
    crowd = [socket.create_connection(address, 20) for _ in range(3 * MOST_VISITORS)]
    watched.join()
    assert watched.lost == {0: [], 2: []}
    for each in crowd:
        each.close()


@pytest.mark.parametrize(
    "news",
    [
        {"rank": 0, "where": "elsewhere", "left": True},
        {"rank": 7, "where": "elsewhere", "left": True},
        {"rank": True, "where": "elsewhere", "left": True},
        {"rank": 2.0, "where": "elsewhere", "left": True},
        {"rank": 2, "where": "elsewhere"},
        {"where": "elsewhere", "left": True},
        {"rank": 2, "where": "elsewhere", "left": True, "why": ["no text"]},
        "gone",
        [[]],
    ],
    ids=str,
)
def test_rank_that_says_what_no_rank_says_is_lost_and_speaks_for_nobody_else(
    watched: Watched, news: object
) -> None:
    watched.join()
    watched.third._link.tell(news)
    _soon(lambda: bool(watched.lost[0]))
    here = f"process {os.getpid()} on {socket.gethostname()}"
    assert watched.lost[0] == [f"rank 7 is gone: its {here} has ended"]
    assert watched.left[0] == []


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"names": "abc"},
        {"names": ["a", "b"]},
        {"names": ["a", "b", 3]},
        {"rank": 7, "where": "", "left": True},
        {"unknown": 1},
    ],
    ids=str,
)
def test_first_rank_that_says_what_it_may_not_is_lost(watched: Watched, said: object) -> None:
    watched.join()
    watched.first._links[2].tell(said)
    _soon(lambda: bool(watched.lost[2]))
    assert watched.lost[2][0].startswith("rank 3 is gone: it said what no rank says: ")
    assert watched.third.word(10) is None


def test_what_comes_with_a_card_is_heard_though_its_rank_has_gone_since(watched: Watched) -> None:
    """Also where the kernel knows no address of the other end any more: the connection is reset."""
    said = hello(1)
    with socket.create_connection(("127.0.0.1", watched.port)) as gone:
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.sendall(said)
        handshake, proof = confirmed(SECRET, said, gone.recv(100))
        seal = handshake.seal(OTHER_END)
        words = ({"where": "elsewhere", "card": 1}, last_words(1, False, "its disk is full"))
        texts = [encoded(each) for each in words]
        frames = [len(text).to_bytes(4, "big") + seal.code(text) + text for text in texts]
        held = watched.first._hear
        here = threading.Event()
        watched.first._hear = lambda link: here.wait(60) and held(link)  # type: ignore[assignment]
        gone.sendall(proof + b"".join(frames))
        _soon(lambda: 1 in [link.rank for link in _links_of(watched.first)])
    here.set()
    _soon(lambda: bool(watched.lost[0]))
    assert watched.lost[0] == ["rank 5 is gone: its disk is full"]
    assert watched.first._thread.is_alive()


def _links_of(first: RootDetector) -> list[PeerConnection]:
    found = [key.data for key in first._selector.get_map().values()]
    return [each for each in found if isinstance(each, PeerConnection)]


def test_waiting_for_all_ends_with_what_has_failed(watched: Watched) -> None:
    with pytest.raises(PeerLost, match="rank 5"):
        watched.first.await_all(10, lambda: PeerLost("rank 5"))


def test_ranks_bring_cards_and_hear_the_words_of_the_first(watched: Watched) -> None:
    addresses = [("127.0.0.1", watched.port)]
    other = MemberDetector(1, addresses, SECRET, NAMES, *watched.ears(0), 10, {"card": "of 1"})
    third = MemberDetector(2, addresses, SECRET, NAMES, *watched.ears(2), 10)
    watched.first.await_all(10)
    assert watched.first.cards == {1: {"card": "of 1"}, 2: None}
    watched.first.say(["a word", "y" * 10_000])
    watched.first.say("another")
    for rank in (other, third):
        assert rank.word(10) == ["a word", "y" * 10_000]
        assert rank.word(10) == "another"
        with pytest.raises(ExchangeTimeout, match=r"0\.01 s in vain for an answer of rank 3"):
            rank.word(0.01)
    watched.first.close()
    assert other.word(10) is None
    other.close()
    third.close()


def test_rank_that_has_come_once_is_not_let_in_again(watched: Watched) -> None:
    addresses = [("127.0.0.1", watched.port)]
    third = MemberDetector(2, addresses, SECRET, NAMES, *watched.ears(2), 10)
    _soon(lambda: 2 in watched.first.cards)
    for rank in (2, 0, 7):
        with pytest.raises(ExchangeTimeout):
            MemberDetector(rank, addresses, SECRET, NAMES, print, print, 0.2)
    other = MemberDetector(1, addresses, SECRET, NAMES, print, print, 10)
    watched.first.await_all(10)
    assert watched.lost == {0: [], 2: []}
    third.close()
    other.close()


def test_rank_that_gave_up_waiting_may_come_once_more(watched: Watched) -> None:
    with socket.create_connection(("127.0.0.1", watched.port)) as gave_up:
        said = hello(1)
        gave_up.sendall(said)
        _, proof = confirmed(SECRET, said, gave_up.recv(100))
        gave_up.sendall(proof)
    watched.join()
    assert watched.lost == {0: [], 2: []}


def test_ranks_are_told_by_the_names_that_the_first_gave_them_last(watched: Watched) -> None:
    watched.join()
    watched.first.rename(["rank 3 (a)", "rank 5 (b)", "rank 7 (c)"])
    watched.third.close(in_peace=False, why="its disk is full")
    _soon(lambda: bool(watched.lost[0]))
    assert watched.lost[0] == ["rank 7 (c) is gone: its disk is full"]
    assert watched.heard() == watched.lost[0][0]
    assert watched.process.communicate("leave\n", timeout=30) == ("", None)


def test_rank_that_fails_may_say_why(watched: Watched) -> None:
    watched.join()
    watched.third.close(in_peace=False, why="its disk is full")
    _soon(lambda: bool(watched.lost[0]))
    assert watched.lost[0] == ["rank 7 is gone: its disk is full"]
    assert watched.heard() == watched.lost[0][0]
    assert watched.process.communicate("leave\n", timeout=30) == ("", None)


def test_reason_of_any_text_is_told_as_far_as_it_can_be(watched: Watched) -> None:
    watched.join()
    watched.third.close(in_peace=False, why="no '\udcff'" + "\N{FIRE}" * 2**21)
    _soon(lambda: bool(watched.lost[0]))
    assert watched.lost[0][0].startswith("rank 7 is gone: no '\\udcff'\N{FIRE}")
    assert watched.heard().startswith("rank 7 is gone: no '\\udcff'")
    watched.process.communicate("leave\n", timeout=30)


def test_somebody_else_at_the_first_address_is_passed_by(watched: Watched) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [("127.0.0.1", silent.getsockname()[1]), ("127.0.0.1", watched.port)]
        begun = time.monotonic()
        other = MemberDetector(1, addresses, SECRET, NAMES, *watched.ears(0), 0.3)
        assert time.monotonic() - begun < 5
        other.close()


def test_address_where_nobody_answers_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ExchangeTimeout, match=rf"does not answer at 127\.0\.0\.1:{port}"):
        MemberDetector(1, [("127.0.0.1", port)], SECRET, NAMES, print, print, 0.1)
