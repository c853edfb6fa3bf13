"""How ranks come together for a box, or do not; what a window asks for, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from knltrain.communication.memory_box.remote.window import Window

from ....mpi_ranks import needs_mpi, run_ranks

Run = Callable[..., str]


@pytest.mark.slow
@needs_mpi
def test_ranks_that_differ_and_servers_that_are_none_are_told(run: Run) -> None:
    run("ranks_that_differ_are_told")


@pytest.mark.slow
@needs_mpi
def test_window_is_placed_and_proved_like_a_segment(run: Run) -> None:
    run("window_is_where_its_placement_wants_it")


@pytest.mark.slow
@needs_mpi
def test_rank_that_does_not_come_ends_the_wait() -> None:
    path = Path(__file__).with_name("programs.py")
    found = run_ranks(3, str(path), "rank_that_does_not_come_ends_the_wait")
    assert "told" in found.stdout, found.stdout


def test_other_servers_are_read_when_the_word_is_known_to_be_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two that set words at two servers at once, one would else not find the other's."""
    told: list[tuple[str, object]] = []
    window = Window.__new__(Window)
    window._mpi = SimpleNamespace(REPLACE="set", NO_OP="read")
    monkeypatch.setattr(Window, "_ask", lambda _, server, *given: told.append((given[-1], server)))
    monkeypatch.setattr(Window, "_await", lambda _, servers, __: told.append(("await", servers)))
    parts = [(server, 0, np.zeros(1, np.int64)) for server in range(3)]
    window.replace_and_read((1, 7, 5), parts)
    assert told[:3] == [("set", 1), ("read", 1), ("await", [1])]
    assert told[3:] == [("read", 0), ("read", 2), ("await", [0, 2])]
    told.clear()
    window.replace_and_read((1, 7, 5), parts[1:2])
    assert told == [("set", 1), ("read", 1), ("await", [1])]
