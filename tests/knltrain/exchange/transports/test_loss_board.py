"""The losses of all workers on one board: in lockstep, out of step, and in several processes."""

from __future__ import annotations

import os
import sys
import threading
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
    return memory.losses


def test_nobody_has_learned_from_anything_at_first(board: LossBoard) -> None:
    assert board.total() == board.here() == LossSum(0, 0)
    assert LossBoard.alone().total() == LossSum(0, 0)


def test_sums_of_a_step_are_found_while_others_are_in_the_next(board: LossBoard) -> None:
    for slot in range(3):
        board.publish(slot, 1, LossSum(8, 10 + slot))
    board.publish(1, 2, LossSum(16, 100))
    assert board.here(1) == LossSum(24, 10 + 11 + 12)
    assert board.here() == LossSum(8 + 16 + 8, 10 + 100 + 12)


def test_workers_that_are_not_at_that_step_count_by_their_newest_sums(board: LossBoard) -> None:
    board.publish(0, 7, LossSum(7, 70))
    for steps in (1, 2, 3):
        board.publish(1, steps, LossSum(steps, 10 * steps))
    assert board.here(7) == LossSum(7 + 3, 70 + 30)
    assert board.here(2) == LossSum(7 + 2, 70 + 20)


def test_with_other_processes_all_count_as_when_these_have_told(board: LossBoard) -> None:
    board.publish(0, 4, LossSum(4, 40))
    for number in range(1, 6):
        board.publish_all(LossSum(100 * number, 1000 * number))
        board.publish(0, 4 + number, LossSum(4 + number, 40))
        assert board.total(4 + number) == LossSum(3 + number + 100 * number, 40 + 1000 * number)
        assert board.here(4 + number) == LossSum(4 + number, 40)


def test_news_from_before_the_first_step_hide_no_loss(board: LossBoard) -> None:
    board.publish_all(LossSum(0, 0))
    board.publish(0, 1, LossSum(4, 40))
    assert board.total(1) == LossSum(4, 40)
    board.publish_all(LossSum(3, 3))
    assert board.total(1) == LossSum(7, 43)


def test_no_sums_of_two_steps_are_read_while_they_are_written(board: LossBoard) -> None:
    """Of each step the losses are twice the images."""
    ends = threading.Event()

    def write() -> None:
        step = 0
        while not ends.is_set():
            step += 1
            board.publish(0, step, LossSum(step, 2.0 * step))
            board.publish_all(LossSum(step, 2.0 * step))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5000):
            for found in (board.here(), board.total()):
                assert found.losses == 2 * found.images
    finally:
        ends.set()
        writer.join()
        sys.setswitchinterval(before)


def test_requests_and_losses_leave_each_other_alone(memory: RequestBoard, board: LossBoard) -> None:
    for slot in range(3):
        memory.lines[slot + 1] = 5
        memory.answer(slot, 1)
        for steps in (5, 6):
            board.publish(slot, steps, LossSum(2, 3))
    memory.open(OpenRound(1, 6, stops=True))
    board.publish_all(LossSum(1, 1))
    assert board.total() == LossSum(7, 10)
    assert memory.lines.tolist() == [2, 5, 5, 5]
    assert memory.open_round(2) == OpenRound(1, 6, stops=True)
    assert memory.answered(1)


def test_losses_are_seen_by_another_process(memory: RequestBoard, board: LossBoard) -> None:
    child = os.fork()
    if child == 0:
        try:
            RequestBoard.attach(os.dup(memory.fd)).losses.publish(2, 3, LossSum(5, 2.5))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert board.total(3) == LossSum(5, 2.5)
