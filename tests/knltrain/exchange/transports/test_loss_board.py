"""The losses of all workers on one board: in lockstep, out of step, and in several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from knltrain.exchange.transports.board import LossBoard, LossSum, OpenRound, RequestBoard


@pytest.fixture
def memory() -> Iterator[RequestBoard]:
    made = RequestBoard.create(3)
    yield made
    made.close()


@pytest.fixture
def board(memory: RequestBoard) -> LossBoard:
    return LossBoard(memory.words)


def test_nobody_has_learned_from_anything_at_first(board: LossBoard) -> None:
    assert board.total() == board.own() == LossSum(0, 0)
    assert LossBoard.alone().total() == LossSum(0, 0)


def test_sums_of_a_step_are_found_while_others_are_in_the_next(board: LossBoard) -> None:
    for slot in range(3):
        board.publish(slot, 1, LossSum(8, 10 + slot))
    board.publish(1, 2, LossSum(16, 100))
    assert board.own(1) == LossSum(24, 10 + 11 + 12)
    assert board.own() == LossSum(8 + 16 + 8, 10 + 100 + 12)


def test_workers_that_are_not_at_that_step_count_by_their_newest_sums(board: LossBoard) -> None:
    board.publish(0, 7, LossSum(7, 70))
    for steps in (1, 2, 3):
        board.publish(1, steps, LossSum(steps, 10 * steps))
    assert board.own(7) == LossSum(7 + 3, 70 + 30)
    assert board.own(2) == LossSum(7 + 2, 70 + 20)


def test_what_other_processes_say_counts_by_its_newest_word(board: LossBoard) -> None:
    board.publish(0, 4, LossSum(4, 40))
    for number in range(1, 6):
        board.publish_others(LossSum(100 * number, 1000 * number))
        assert board.total(4) == LossSum(4 + 100 * number, 40 + 1000 * number)
        assert board.own(4) == LossSum(4, 40)


def test_requests_and_losses_leave_each_other_alone(memory: RequestBoard, board: LossBoard) -> None:
    for slot in range(3):
        memory.lines[slot + 1] = 5
        memory.answer(slot, 1)
        for steps in (5, 6):
            board.publish(slot, steps, LossSum(2, 3))
    memory.open(OpenRound(1, 6, stops=True))
    board.publish_others(LossSum(1, 1))
    assert board.total() == LossSum(7, 10)
    assert memory.lines.tolist() == [2, 5, 5, 5]
    assert memory.open_round(2) == OpenRound(1, 6, stops=True)
    assert memory.answered(1)


def test_losses_are_seen_by_another_process(memory: RequestBoard, board: LossBoard) -> None:
    child = os.fork()
    if child == 0:
        own = RequestBoard.attach(os.dup(memory.fd))
        LossBoard(own.words).publish(2, 3, LossSum(5, 2.5))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert board.total(3) == LossSum(5, 2.5)
