"""How the processes that start workers agree on the step of a round, by notes that tests carry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from knltrain.exchange.transports.board import OpenRound, RequestBoard
from knltrain.launch.rounds import Rounds


class Mail:
    """A process's way to the others, of which tests carry the notes."""

    def __init__(self, others: int, leads: bool) -> None:
        self.others, self.leads, self.notes_fd = others, leads, -1
        self.sent: list[dict[str, Any]] = []
        self.came: list[dict[str, Any]] = []

    def tell(self, note: dict[str, Any]) -> None:
        self.sent.append(note)

    def notes(self) -> list[dict[str, Any]]:
        came, self.came = self.came, []
        return came


class Processes:
    """`count` processes with a worker each, the first one leading."""

    def __init__(self, count: int, open_: ExitStack) -> None:
        self.boards = [RequestBoard.create(1) for _ in range(count)]
        for board in self.boards:
            open_.callback(board.close)
        self.mail = [Mail(count - 1, number == 0) for number in range(count)]
        self.rounds = [Rounds(*each) for each in zip(self.boards, self.mail, strict=True)]

    def carry(self) -> None:
        """Let notes arrive, and all do what they say, until none is left."""
        first, others = self.mail[0], self.mail[1:]
        while any(each.sent for each in self.mail):
            told, first.sent = first.sent, []
            for other in others:
                other.came += told
                first.came += other.sent
                other.sent = []
            for each in self.rounds:
                each.go_on()

    def set_out(self, *steps: int) -> None:
        for board, step in zip(self.boards, steps, strict=True):
            board.lines[1] = step

    def answer(self, number: int) -> None:
        for board in self.boards:
            board.answer(0, number)

    @property
    def found(self) -> list[OpenRound | None]:
        return [board.open_round(int(board.lines[0])) for board in self.boards]


@pytest.fixture
def three() -> Iterator[Processes]:
    with ExitStack() as open_:
        yield Processes(3, open_)


def test_process_alone_opens_a_round_for_the_step_that_none_has_passed() -> None:
    board = RequestBoard.create(2)
    rounds = Rounds(board, None)
    board.lines[1:] = 8, 9
    rounds.ask(stops=False, why="SIGUSR2")
    assert board.open_round(int(board.lines[0])) == OpenRound(1, 9, stops=False)
    assert rounds.why is None
    board.close()


@pytest.mark.parametrize("who", [0, 2])
def test_all_open_a_round_for_the_furthest_step_of_all_whoever_asks(
    three: Processes, who: int
) -> None:
    three.set_out(5, 7, 6)
    three.rounds[who].ask(stops=True, why="SIGTERM")
    three.carry()
    assert three.found == [OpenRound(1, 7, stops=True)] * 3
    assert [each.why for each in three.rounds] == ["SIGTERM"] * 3


def test_nobody_sets_out_before_all_have_told(three: Processes) -> None:
    three.rounds[0].ask(stops=False, why="SIGUSR2")
    three.mail[1].came += three.mail[0].sent
    three.rounds[1].go_on()
    three.mail[0].came += three.mail[1].sent
    three.rounds[0].go_on()
    assert three.found == [None] * 3
    assert [int(board.lines[0]) for board in three.boards] == [1, 1, 0]


def test_next_round_waits_until_the_last_one_is_answered(three: Processes) -> None:
    three.rounds[0].ask(stops=False, why="checkpoint.every_minutes")
    three.carry()
    three.rounds[1].ask(stops=True, why="SIGUSR1")
    three.carry()
    assert three.found == [OpenRound(1, 0, stops=False)] * 3
    three.answer(1)
    three.rounds[0].go_on()
    three.carry()
    assert three.found == [OpenRound(2, 0, stops=True)] * 3


def test_who_asks_for_both_stops(three: Processes) -> None:
    three.rounds[1].ask(stops=False, why="SIGUSR2")
    three.rounds[2].ask(stops=True, why="SIGTERM")
    three.rounds[1].ask(stops=True, why="SIGUSR1")
    three.carry()
    assert three.found == [OpenRound(1, 0, stops=True)] * 3
    assert len({each.why for each in three.rounds}) == 1
