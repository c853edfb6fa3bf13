from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from knltrain.errors import ExchangeTimeout, PeerLost
from knltrain.exchange.peer_watch import FirstRank, OtherRank

NAMES = ["rank 3", "rank 5", "rank 7"]
TOKEN = "this group's"
OTHER = """
import sys, time
from knltrain.exchange.peer_watch import OtherRank

port, token = int(sys.argv[1]), sys.argv[2]
other = OtherRank(1, [("127.0.0.1", port)], token, ["rank 3", "rank 5", "rank 7"], print, 10)
print("here", flush=True)
sys.stdin.readline()
other.close()
"""


class Watched:
    """Rank 0 and rank 2 of a group here; rank 1 is a process of its own."""

    def __init__(self) -> None:
        self.heard: dict[int, list[PeerLost]] = {0: [], 2: []}
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.first = FirstRank(listener, TOKEN, NAMES, self.heard[0].append)

    def join(self) -> None:
        self.process = self.start(TOKEN)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "here\n"
        addresses = [("127.0.0.1", self.port)]
        self.third = OtherRank(2, addresses, TOKEN, NAMES, self.heard[2].append, 10)
        self.first.await_all(10)

    def start(self, token: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", OTHER, str(self.port), token],
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
        group.process.kill()
        group.process.communicate()


def _soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_rank_is_told_to_all_others_at_once(watched: Watched) -> None:
    watched.join()
    watched.process.kill()
    killed = time.monotonic()
    _soon(lambda: bool(watched.heard[0] and watched.heard[2]))
    assert time.monotonic() - killed < 1
    text = f"rank 5 is gone: its process {watched.process.pid} on {socket.gethostname()} has ended"
    assert [str(error) for error in watched.heard[0] + watched.heard[2]] == [text, text]


def test_rank_that_leaves_in_peace_is_not_lost(watched: Watched) -> None:
    watched.join()
    assert watched.process.communicate("leave\n", timeout=30) == ("", None)
    watched.third.close()
    watched.first.close()
    assert watched.heard == {0: [], 2: []}


def test_first_rank_that_is_cut_off_is_told_and_one_that_leaves_is_not(watched: Watched) -> None:
    watched.join()
    watched.third._link.connection.shutdown(socket.SHUT_RD)  # as if nothing came any more
    _soon(lambda: bool(watched.heard[2]))
    assert str(watched.heard[2][0]).startswith("rank 3 is gone: its connection has ended")
    watched.first.close()
    assert watched.process.communicate(timeout=30) == ("", None)


def test_strangers_are_not_let_in(watched: Watched) -> None:
    stranger = watched.start("another group's")
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b""):
        with socket.create_connection(("127.0.0.1", watched.port)) as visitor:
            visitor.sendall(said)
            visitor.shutdown(socket.SHUT_WR)
            assert visitor.recv(1) == b""
    output, _ = stranger.communicate("leave\n", timeout=30)
    assert "here" in output
    with pytest.raises(ExchangeTimeout, match=r"0\.1 s in vain for rank 5, rank 7 of a new group"):
        watched.first.await_all(0.1)
    watched.join()
    assert watched.heard == {0: [], 2: []}


def test_address_where_nobody_answers_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ExchangeTimeout, match=rf"first rank of a new group at 127\.0\.0\.1:{port}"):
        OtherRank(1, [("127.0.0.1", port)], TOKEN, NAMES, print, 0.1)
