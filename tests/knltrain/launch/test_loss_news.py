"""The losses of the workers of several processes, of which the first is connected to all others."""

from __future__ import annotations

import numpy as np

from knltrain.exchange.transports.board import LINE_WORDS, LossBoard, LossSum
from knltrain.launch.loss_news import LossNews

PROCESSES, WORKERS = 4, 2


class Beating:
    """Processes that tell each other in any order, as heartbeats do."""

    def __init__(self) -> None:
        self.boards = [
            LossBoard(np.zeros((1 + WORKERS, LINE_WORDS), np.int64)) for _ in range(PROCESSES)
        ]
        self.news = [LossNews(board) for board in self.boards]

    def beat(self, teller: int, hearer: int) -> None:
        self.news[hearer].from_rank(teller, list(self.news[teller].for_rank(hearer)))

    def train(self, process: int, worker: int, steps: int) -> None:
        found = LossSum(10 * steps, float(steps * (1 + process)))
        self.boards[process].publish(worker, steps, found)


def test_all_know_all_after_two_beats_of_each() -> None:
    made = Beating()
    for process in range(PROCESSES):
        for worker in range(WORKERS):
            made.train(process, worker, 5 + process)
    for other in range(1, PROCESSES):
        made.beat(other, 0)
    for other in range(1, PROCESSES):
        made.beat(0, other)
    steps = [5 + process for process in range(PROCESSES)]
    losses = WORKERS * sum(each * (1 + process) for process, each in enumerate(steps))
    expected = LossSum(10 * WORKERS * sum(steps), losses)
    assert [board.total() for board in made.boards] == [expected] * PROCESSES


def test_nothing_counts_twice_in_whatever_order_they_tell() -> None:
    made, draw = Beating(), np.random.default_rng(3)
    done = np.zeros((PROCESSES, WORKERS), int)
    for _ in range(400):
        process, worker = draw.integers(PROCESSES), draw.integers(WORKERS)
        done[process, worker] += 1
        made.train(int(process), int(worker), int(done[process, worker]))
        other = int(draw.integers(1, PROCESSES))
        made.beat(*((other, 0) if draw.random() < 0.5 else (0, other)))
        for board in made.boards:
            assert board.total().images <= 10 * done.sum()
    for other in range(1, PROCESSES):
        made.beat(other, 0)
    for other in range(1, PROCESSES):
        made.beat(0, other)
    losses = float(sum(done[process].sum() * (1 + process) for process in range(PROCESSES)))
    expected = LossSum(10 * done.sum(), losses)
    assert [board.total() for board in made.boards] == [expected] * PROCESSES


def test_figures_of_another_version_are_left_alone() -> None:
    made = Beating()
    for figures in ([], [1.0], [1.0, 2.0, 3.0]):
        made.news[0].from_rank(1, figures)
    assert made.boards[0].total() == LossSum(0, 0)
