"""Pictures that are read by MPI from the memory of other ranks."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from knltrain.errors import PeerLost
from knltrain.input.distributed import window as module
from knltrain.input.distributed.parts import Division
from knltrain.input.distributed.window import PartWindow

from ...mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks

PROGRAM = "tests.knltrain.input.distributed.window_ranks"


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("over", [{}, OVER_TCP], ids=["in memory", "over TCP"])
def test_ranks_read_each_others_parts(over: dict[str, str]) -> None:
    assert "all was read" in expect_success(run_ranks(3, "-m", PROGRAM, environment=over))


class Memory:
    """A window, over `words` at its begin and `content` behind them."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def Rget(self, out: list[Any], rank: int, target: tuple[int, int, Any]) -> int:  # noqa: N802
        if rank != 3:
            raise ConnectionError("no such rank")
        offset, size, _ = target
        out[0][:] = self.content[offset : offset + size]
        return offset


def window_over(content: bytes, offsets: list[int]) -> PartWindow:
    window = PartWindow.__new__(PartWindow)
    window._mpi = SimpleNamespace(BYTE="byte", Exception=ConnectionError)
    window._window, window._holders = Memory(content), [0, 3]
    window.divisions = [Division(4, 2), Division(2, 2)]
    window._offsets = np.array([[-1] * 4] * 3 + [offsets])
    window._completion = SimpleNamespace(of=lambda *_: None)  # type: ignore[assignment]
    return window


def test_records_lie_behind_the_first_of_their_node() -> None:
    client = window_over(b"..aabb", [2, -1, 0, -1]).client(0, 1, 2)
    client.ask(0, np.array([3, 2]))
    found = [bytearray(size) for size in client.sizes(2)]
    client.receive([memoryview(each) for each in found])
    assert found == [b"bb", b"aa"]


def test_where_records_begin_is_read_before_them() -> None:
    begins = np.array([0, 1, 4], np.int64).tobytes()
    client = window_over(begins + b"abbb", [len(begins), 0, 0, -1]).client(0, 1, 0)
    client.ask(0, np.array([3, 2]))
    assert client.sizes(2) == [3, 1]
    found = [bytearray(3), bytearray(1)]
    client.receive([memoryview(each) for each in found])
    assert found == [b"bbb", b"a"]


def test_an_error_of_mpi_is_a_lost_peer() -> None:
    with pytest.raises(PeerLost, match="MPI failed: no such rank"):
        window_over(b"", [0, -1, 0, -1]).get(1, [(0, memoryview(bytearray(1)))])


def test_an_error_of_mpi_while_a_window_is_made_is_a_lost_peer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def idup() -> Any:
        raise ConnectionError("a rank is gone")

    mpi = SimpleNamespace(Exception=ConnectionError, COMM_WORLD=SimpleNamespace(Idup=idup))
    monkeypatch.setattr(module, "Completion", lambda *_: None)
    with pytest.raises(PeerLost, match="MPI failed: a rank is gone"):
        PartWindow(mpi, 0, [], [Division(4, 2)], 1.0, lambda: None)


@pytest.mark.parametrize("fails_in", ["Ibarrier", "Unlock_all", "Free"])
def test_no_error_of_mpi_ends_a_run_that_has_finished(fails_in: str) -> None:
    called = []

    def call(name: str, kind: type[Exception]) -> None:
        called.append(name)
        if name == fails_in or kind is PeerLost:
            raise kind(name)

    window = window_over(b"", [0] * 4)
    window._group, window._window, window._progress = (  # type: ignore[assignment]
        SimpleNamespace(**{name: partial(call, name, kind) for name in names})
        for kind, *names in (
            (ConnectionError, "Ibarrier"),
            (ConnectionError, "Unlock_all", "Free"),
            (PeerLost, "stop"),
        )
    )
    window.close()
    order = ["Ibarrier", "Unlock_all", "Free"]
    assert called == [*order[: order.index(fails_in) + 1], "stop"]


def test_a_rank_that_has_not_waited_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAVE_SECONDS", 0.05)
    window, others = window_over(b"", [0] * 4), threading.Event()
    window._group, window._progress = SimpleNamespace(Ibarrier=lambda: None), None
    window._window = SimpleNamespace(Unlock_all=lambda: None, Free=others.wait)
    window.close()
    assert not others.is_set()
    others.set()
