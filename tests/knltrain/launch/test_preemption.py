"""What signals, the clock and the end of a job ask for."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from knltrain.config import RunConfig
from knltrain.launch import preemption as module
from knltrain.launch import signals
from knltrain.launch.preemption import Preemption

TABLES = {
    "workers": 1,
    "network": {"name": "lenet"},
    "data": {"name": "digits"},
    "train": {"steps": 10, "batch": 16},
    "learning_rate": {"base": 0.1},
}
KEPT = {"event": "checkpoint", "step": 40, "seconds": 2.0}
PROGRESS = {"event": "progress", "step": 1}


class Asked:
    """Rounds that remember what they are asked for."""

    fd = None
    why = None

    def __init__(self) -> None:
        self.found: list[tuple[bool, str]] = []

    def ask(self, *, stops: bool, why: str) -> None:
        self.found.append((stops, why))

    def go_on(self) -> None:
        pass


class Clock:
    """Seconds that tests let pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for each in (module, signals):
        monkeypatch.setattr(each, "time", made)
    return made


@pytest.fixture
def asked() -> Asked:
    return Asked()


def _made(asked: Asked, notes: list[str] | None = None, **tables: Any) -> Preemption:
    options = {key: tables.pop(key) for key in ("leads", "job_end") if key in tables}
    config = RunConfig.model_validate({**TABLES, **tables})
    note = (lambda _text: None) if notes is None else notes.append
    return Preemption(config, asked, note, **options)  # type: ignore[arg-type]


def test_first_signal_asks_for_a_stop_and_a_later_one_ends_the_run(
    asked: Asked, clock: Clock
) -> None:
    notes: list[str] = []
    made = _made(asked, notes)
    assert made.takes(signal.SIGTERM)
    clock.now += 1
    assert not made.takes(signal.SIGTERM)
    assert asked.found == [(True, "SIGTERM")]
    assert notes == [
        "SIGTERM: the run stops after a step, with a checkpoint; once more ends it at once"
    ]


def test_first_signal_after_the_clock_has_asked_is_no_second_one(
    asked: Asked, clock: Clock
) -> None:
    """Schedulers send it just when the run writes its checkpoint."""
    notes: list[str] = []
    made = _made(asked, notes, job_end=lambda: 1000.0, preemption={"heed_job_end": True})
    made.go_on()
    clock.now += 1
    assert made.takes(signal.SIGTERM)
    assert made.takes(signal.SIGTERM)  # the echo of that
    assert len(notes) == 2
    clock.now += 1
    assert not made.takes(signal.SIGTERM)
    assert asked.found == [(True, "the end of its job")]
    assert made.why == "the end of its job"


@pytest.mark.parametrize("second", [signal.SIGUSR1, signal.SIGINT, signal.SIGHUP])
def test_another_signal_ends_the_run_at_once(
    asked: Asked, clock: Clock, second: signal.Signals
) -> None:
    made = _made(asked)
    assert made.takes(signal.SIGTERM)
    assert not made.takes(second)


def test_signal_to_a_process_and_to_its_group_counts_once(asked: Asked, clock: Clock) -> None:
    made = _made(asked)
    assert made.takes(signal.SIGTERM)
    assert made.takes(signal.SIGTERM)
    assert len(asked.found) == 1


def test_what_is_typed_twice_ends_the_run(asked: Asked, clock: Clock) -> None:
    made = _made(asked, preemption={"signals": ("SIGINT",)})
    assert made.takes(signal.SIGINT)
    assert not made.takes(signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_end_the_run_at_once(asked: Asked, number: signal.Signals) -> None:
    assert not _made(asked).takes(number)
    assert asked.found == []


def test_signal_that_stands_nowhere_does_nothing(asked: Asked) -> None:
    made = _made(asked, preemption={"signals": (), "checkpoint_signals": ()})
    assert made.takes(signal.SIGUSR1)
    assert made.takes(signal.SIGUSR2)
    assert not made.takes(signal.SIGTERM)
    assert asked.found == []


def test_checkpoint_that_a_signal_asks_for_is_told(asked: Asked, clock: Clock) -> None:
    notes: list[str] = []
    made = _made(asked, notes)
    assert made.takes(signal.SIGUSR2)
    assert made.takes(signal.SIGUSR2)
    assert asked.found == [(False, "SIGUSR2")] * 2
    assert made.hears(KEPT)
    assert made.hears(KEPT)
    assert notes == ["step 40  checkpoint, as SIGUSR2 asks"]


def test_stop_that_does_not_come_in_time_is_overdue(asked: Asked, clock: Clock) -> None:
    made = _made(asked, preemption={"grace_seconds": 5.0})
    clock.now += 100
    assert made.overdue is None
    made.takes(signal.SIGUSR1)
    clock.now += 4.9
    assert made.overdue is None
    clock.now += 0.2
    assert made.overdue == signal.SIGUSR1


def test_clock_asks_for_a_checkpoint_so_long_after_the_last_one(asked: Asked, clock: Clock) -> None:
    made = _made(asked, checkpoint={"every_minutes": 2.0})

    def found_after(seconds: float) -> int:
        clock.now += seconds
        made.go_on()
        return len(asked.found)

    assert found_after(1000) == 0  # the workers have not set out
    assert not made.hears(PROGRESS)
    assert found_after(119) == 0
    assert made.hears(KEPT)
    assert found_after(119) == 0
    assert found_after(1.5) == 1
    assert found_after(1) == 1
    assert asked.found == [(False, "checkpoint.every_minutes")]


@pytest.mark.parametrize("options", [{"checkpoint": {"every_minutes": 0.0}}, {"leads": False}])
def test_clock_asks_for_nothing_where_it_is_not_to(
    asked: Asked, clock: Clock, options: dict[str, Any]
) -> None:
    made = _made(asked, **options)
    made.hears(PROGRESS)
    clock.now += 1e6
    made.go_on()
    assert asked.found == []


def test_end_of_the_job_is_heeded_by_twice_what_a_checkpoint_takes_and_a_reserve(
    asked: Asked, clock: Clock
) -> None:
    """As it is known by then: it may have been put off."""
    ends = SimpleNamespace(at=1050.0)
    made = _made(
        asked,
        job_end=lambda: ends.at,
        preemption={"heed_job_end": True, "reserve_seconds": 30.0},
        checkpoint={"every_minutes": 0.0},
    )
    made.hears(KEPT)
    made.go_on()
    ends.at = 1100.0
    for clock.now, expected in ((1065.0, 0), (1066.5, 1), (1070.0, 1)):
        made.go_on()
        assert len(asked.found) == expected
    assert asked.found == [(True, "the end of its job")]
    assert made.overdue is None
    clock.now += 30
    assert made.overdue == signal.SIGTERM
