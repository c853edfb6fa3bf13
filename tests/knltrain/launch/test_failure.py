"""Which of several ends is shown to the user."""

from __future__ import annotations

import pytest

from knltrain.launch.failure import Failure, first_cause


def _error(rank: int, kind: str, at_seconds: float, step: int | None = 3) -> Failure:
    event = {"kind": kind, "message": kind, "step": step, "exit_code": 1, "at_seconds": at_seconds}
    return Failure.from_event(rank, event)


def test_the_cause_is_shown_although_its_consequences_were_told_first() -> None:
    failures = [
        _error(0, "RunAborted", 1.0),
        _error(2, "PeerLost", 2.0),
        _error(3, "ExchangeTimeout", 3.0),
        _error(1, "NonFiniteLoss", 4.0),
    ]
    assert first_cause(failures).rank == 1
    assert first_cause(failures[:3]).rank == 3
    assert first_cause(failures[:2]).rank == 2


def test_of_two_causes_the_earlier_is_shown() -> None:
    failures = [_error(0, "ValueError", 2.0), _error(1, "NonFiniteLoss", 1.0)]
    assert first_cause(failures).rank == 1


def test_a_kill_is_a_cause_and_a_lost_peer_its_consequence() -> None:
    killed = Failure.from_exit(1, -9)
    assert first_cause([_error(0, "PeerLost", killed.at_seconds - 1), killed]) is killed


@pytest.mark.parametrize(
    ("returncode", "cause"),
    [
        (-9, "it was killed by SIGKILL (perhaps out of memory)"),
        (-7, "it was killed by SIGBUS (perhaps /dev/shm is full)"),
        (-11, "it was killed by SIGSEGV"),
        (3, "it exited with code 3 before its work was done"),
        (0, "it exited with code 0 before its work was done"),
    ],
)
def test_an_end_without_a_word_is_described(returncode: int, cause: str) -> None:
    assert Failure.from_exit(0, returncode).cause == cause


@pytest.mark.parametrize(("returncode", "may"), [(-11, True), (-6, True), (-9, False), (3, False)])
def test_a_crash_may_come_of_an_end_elsewhere_and_a_kill_does_not(
    returncode: int, may: bool
) -> None:
    assert Failure.from_exit(0, returncode).may_come_from_elsewhere is may


def test_the_step_is_told_once() -> None:
    event = {"kind": "E", "exit_code": 1, "at_seconds": 0.0, "step": 7}
    assert Failure.from_event(0, {**event, "message": "broken"}).cause == "step 7: broken"
    assert Failure.from_event(0, {**event, "message": "step 7: nan"}).cause == "step 7: nan"
    assert Failure.from_event(0, {**event, "step": None, "message": "early"}).cause == "early"
