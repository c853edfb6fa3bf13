"""The training loss of all workers, as each of them knows it."""

from __future__ import annotations

import time
from typing import Any, final

import numpy as np
import pytest

from knltrain.exchange.transports.board import LINE_WORDS, LossBoard, LossSum, RunLoss
from knltrain.worker.observer import Observer
from knltrain.worker.view import WorkerView

STEPS, WORKERS = 40, 3


@pytest.fixture
def board() -> LossBoard:
    return LossBoard(np.zeros((1 + WORKERS, LINE_WORDS), np.int64))


@final
class Steps(Observer):
    """What a worker knows after each of its steps, and its own loss; some steps take long."""

    def __init__(self, rank: int, slow: bool) -> None:
        self.found: list[LossSum] = []
        self.losses: list[float] = []
        self._draw = np.random.default_rng(rank)
        self._slow = slow

    def step_done(self, worker: WorkerView, step: int, loss: float, *_: float) -> None:
        if self._slow and self._draw.random() < 0.5:
            time.sleep(0.002)
        self.found.append(worker.run_loss.total())
        self.losses.append(loss)


def test_means_are_over_the_images_since_the_last_look(board: LossBoard) -> None:
    own, other = RunLoss(board, 0), RunLoss(board, 1)
    own.computed(0, 9.0, 1)
    window = own.window()
    assert window.mean() == 0.0
    own.computed(1, 2.0, 10)
    assert window.mean() == 2.0
    own.computed(2, 1.0, 30)
    other.computed(0, 5.0, 10)
    assert window.mean() == (30 * 1.0 + 10 * 5.0) / 40
    assert window.mean() == (30 * 1.0 + 10 * 5.0) / 40, "nothing new"
    board.publish_all(LossSum(100, 700))
    assert window.mean() == 7.0
    own.computed(3, 99.0, 10)
    assert window.mean() == 7.0, "as when others told of theirs"
    board.publish_all(LossSum(110, 710))
    assert window.mean() == (10 * 99.0 + 10 * 1.0) / 20


def test_who_takes_no_images_knows_the_loss_of_the_others(board: LossBoard) -> None:
    own, other = RunLoss(board, 0), RunLoss(board, 1)
    window = own.window()
    own.computed(0, 0.0, 0)
    other.computed(0, 3.0, 8)
    assert window.mean() == 3.0


@pytest.mark.parametrize("slow_rank", range(WORKERS))
def test_losses_of_workers_that_step_together_are_those_of_a_sum_that_all_wait_for(
    in_threads: Any,
    make_worker: Any,
    initial: Any,
    synchronous_sgd: Any,
    board: LossBoard,
    slow_rank: int,
) -> None:
    def train(transport: Any) -> Steps:
        rank = transport.rank
        seen = Steps(rank, slow=rank == slow_rank)
        method, run_loss = synchronous_sgd(WORKERS), RunLoss(board, rank)
        options = {"transport": transport, "steps": STEPS, "observers": [seen]}
        with make_worker(method, run_loss=run_loss, **options) as worker:
            worker.run()
            images = worker.batches.images_per_worker
            assert seen.found[-1].images == WORKERS * STEPS * images
            return seen

    all_seen = in_threads(initial.size, WORKERS, train)
    means = np.mean([seen.losses for seen in all_seen], axis=0)
    for seen in all_seen:
        images, losses = np.array(seen.found).T
        assert np.diff(images).tolist() == [images[0]] * (STEPS - 1)
        np.testing.assert_allclose(np.diff(losses, prepend=0) / images[0], means, rtol=1e-12)


def test_losses_of_workers_that_never_meet_are_all_counted(
    in_threads: Any, make_worker: Any, initial: Any, no_exchange: Any, board: LossBoard
) -> None:
    def train(transport: Any) -> tuple[int, float]:
        seen, run_loss = Steps(transport.rank, slow=True), RunLoss(board, transport.rank)
        options = {"transport": transport, "steps": STEPS, "observers": [seen]}
        with make_worker(no_exchange(WORKERS), run_loss=run_loss, **options) as worker:
            worker.run()
            images = worker.batches.images_per_worker
            return STEPS * images, images * sum(seen.losses)

    images, losses = np.sum(in_threads(initial.size, WORKERS, train), axis=0)
    found = board.total()
    assert found.images == images
    np.testing.assert_allclose(found.losses, losses, rtol=1e-12)
