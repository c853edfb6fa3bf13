from __future__ import annotations

import time

import pytest

from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.lateness import Lateness


class Kernel:
    """What is told of processes, whose identities are ranks + 1, and of the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.still: dict[int, str] = {}
        self.delays: dict[int, float] = {}
        self.seconds = 50.0
        monkeypatch.setattr(process_identity, "standstill", lambda who: self.still.get(who))
        monkeypatch.setattr(
            process_identity, "run_delay_seconds", lambda who: self.delays.get(who, 0.0)
        )
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def identity(rank: int) -> int:
    """Rank 9 has not come yet."""
    return 0 if rank == 9 else rank + 1


def test_who_stands_still_is_told_with_how_long(kernel: Kernel) -> None:
    late = Lateness(identity)
    kernel.still = {2: "stopped (state T)"}
    for _ in range(4):
        kernel.seconds += 0.5
        late.look([0, 1, 9])
    assert late.still_for(2.0) == [1]
    assert late.still_for(2.1) == []
    assert late.standstill(1) == "stopped (state T)"
    assert late.standstill(9) is None
    kernel.still = {}
    late.look([0, 1, 9])
    assert late.still_for(2.0) == [1], "looked again at once"
    kernel.seconds += 0.5
    late.look([0, 1, 9])
    assert late.still_for(0) == []


def test_time_in_which_this_process_was_stopped_does_not_count(kernel: Kernel) -> None:
    late = Lateness(identity)
    kernel.still = {1: "stopped (state T)"}
    late.look([0])
    kernel.seconds += 1000
    late.look([0])
    assert late.still_for(1.1) == []


def test_who_has_waited_for_a_core_is_told_from_who_has_not(kernel: Kernel) -> None:
    late = Lateness(identity)
    kernel.delays = {1: 100.0, 2: 100.0}
    late.look([0, 1, 9])
    kernel.delays = {1: 100.2, 2: 109.0}
    assert late.starved([0, 1, 9], 10) == [1]
    kernel.delays = {1: 105.0, 2: 109.2}
    assert late.starved([0, 1, 9], 10) == [0]


def test_nobody_is_starved_that_was_not_looked_at(kernel: Kernel) -> None:
    kernel.delays = {1: 100.0}
    assert Lateness(identity).starved([0], 1) == []
