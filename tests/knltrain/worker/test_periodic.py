"""What is done every so many steps: evaluations and checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.checkpoint.contents import RunIdentity
from knltrain.checkpoint.folders import latest_checkpoint
from knltrain.checkpoint.reader import load_checkpoint, load_worker_state
from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.errors import CheckpointError, NonFiniteLoss, PeerLost
from knltrain.evaluation import ClassCounts, Evaluation
from knltrain.worker import periodic
from knltrain.worker.observer import Observer
from knltrain.worker.periodic import CheckpointObserver, DueSteps, EvaluationObserver


@pytest.mark.parametrize(
    ("period", "total", "expected"),
    [
        (0, 7, [7]),
        (3, 7, [3, 6, 7]),
        (3, 6, [3, 6]),
        (2.5, 10, [3, 5, 8, 10]),
        (100, 7, [7]),
        (0.5, 3, [1, 2, 3]),
    ],
)
def test_due_steps(period, total, expected):
    due = DueSteps(period, total)
    assert [step for step in range(1, total + 1) if due.between(step - 1, step)] == expected


@pytest.mark.parametrize(
    ("since", "step", "expected"),
    [(0, 2, False), (0, 3, True), (2, 8, True), (3, 5, False), (6, 7, True), (7, 7, False)],
)
def test_due_steps_are_found_in_a_stretch_of_several(since, step, expected):
    assert DueSteps(3, 7).between(since, step) is expected


def test_model_is_evaluated_after_the_steps_that_are_due(make_worker, easgd, recorder):
    class NotificationCounts:
        def evaluate(self, model, step, by_class):
            assert by_class == (step == 5)
            return Evaluation(step / 10, float(model[0]), 50)

    worker = make_worker(
        easgd(), observers=[recorder, EvaluationObserver(NotificationCounts(), DueSteps(2, 5))]
    )
    result = worker.run()
    found = [moment for moment in recorder.moments if moment[0] == "evaluated"]
    assert found == [("evaluated", 2, 0.2), ("evaluated", 4, 0.4), ("evaluated", 5, 0.5)]
    assert (result.test_accuracy, result.test_loss) == (0.5, float(worker.model[0]))


def test_finished_run_is_evaluated_without_a_step(make_worker, easgd, recorder):
    class Knows:
        def evaluate(self, model, step, by_class):
            assert by_class
            return Evaluation(0.75, 1.0, 50, ClassCounts((20, 30), (15, 24), None, None))

    due = DueSteps(2, 0)
    worker = make_worker(easgd(), steps=0, observers=[recorder, EvaluationObserver(Knows(), due)])
    result = worker.run()
    assert (result.test_accuracy, result.test_class_accuracy) == (0.75, (0.75, 0.8))
    assert result.test_top5_accuracy is None
    assert [moment[0] for moment in recorder.moments] == ["started", "finished"]


def test_checkpoints_are_saved_after_the_steps_that_are_due(make_worker, no_exchange, recorder):
    saved = []

    class Writer:
        def save(self, state, run_step):
            assert run_step == state.step
            saved.append((state.step, state.local.copy(), state.optimizer["velocity"].copy()))

    worker = make_worker(
        no_exchange(), observers=[recorder, CheckpointObserver(Writer(), DueSteps(2, 5))]
    )
    worker.run()
    assert [step for step, _, _ in saved] == [2, 4, 5]
    for step, local, velocity in saved:
        np.testing.assert_array_equal(local, recorder.models[step - 1])
        assert np.any(velocity != 0)


@pytest.fixture
def team(in_threads, make_worker, initial, tiny_network, every_method):
    """team(folder, steps, period, observers, start): the ends of two workers with checkpoints.

    A team that does not start anew goes on from the checkpoint in the folder `start`.
    """
    method = every_method(2)
    identity = RunIdentity(tiny_network, 2, method.name, 1)

    def load(folder, rank):
        found, example = load_checkpoint(folder, tiny_network), {"velocity": initial}
        return load_worker_state(found, rank, identity=identity, optimizer_state=example)

    def train(folder, steps, period=0, observers=(), start=None):
        def one(transport):
            writer = CheckpointWriter(folder, identity, transport, 1)
            worker = make_worker(
                method,
                transport=transport,
                steps=steps,
                start=load(start, transport.rank) if start else None,
                observers=[*observers, CheckpointObserver(writer, DueSteps(period, steps))],
            )
            worker.run()
            return worker.parameters.copy(), worker.model.copy()

        return in_threads(initial.size, 2, one)

    train.load, train.method = load, method.name
    return train


def test_team_that_goes_on_ends_where_one_that_never_stopped_ends(team, tmp_path):
    (tmp_path / "whole").mkdir()
    whole = team(tmp_path / "whole", steps=7)
    team(tmp_path, steps=3)
    resumed = team(tmp_path, steps=7, start=tmp_path / "checkpoint-3")
    np.testing.assert_array_equal(resumed, whole)
    is_shared = team.method == "sync_sgd"
    assert np.array_equal(whole[0][0], whole[1][0]) is is_shared  # or the test would be too easy


class SpoilsOne(Observer):
    """Leaves one worker without a finite local after step 3."""

    def step_done(self, worker, step, loss, learning_rate):
        if step == 3 and worker.team.rank == 1:
            worker.parameters[0] = np.nan


def test_last_checkpoint_of_a_team_that_diverges_is_a_good_one(team, tmp_path):
    """Each step's checkpoint is written before the loss of its model is known."""
    with pytest.raises((NonFiniteLoss, PeerLost)):
        team(tmp_path, steps=9, period=1, observers=[SpoilsOne()])
    folder = latest_checkpoint(tmp_path)
    assert folder.name == "checkpoint-2"
    assert all(np.isfinite(team.load(folder, rank).local).all() for rank in range(2))


def test_team_whose_last_step_spoilt_a_local_can_go_on_from_before_it(team, tmp_path):
    """The center may be fine, and evaluate well, for as long as that local was not exchanged."""
    team(tmp_path, steps=3, period=1, observers=[SpoilsOne()])
    with pytest.raises((NonFiniteLoss, PeerLost)):
        team(tmp_path, steps=5, start=latest_checkpoint(tmp_path))
    folder = latest_checkpoint(tmp_path)
    assert folder.name == "checkpoint-2"
    assert all(np.isfinite(parameters).all() for parameters, _ in team(tmp_path, 5, start=folder))


class FailsFirst:
    """A writer whose first so many tries fail, for a reason of its own or of another worker."""

    def __init__(self, failures, own=True):
        self.tried, self._failures, self._own = [], failures, own

    def save(self, state, run_step):
        self.tried.append(run_step)
        if len(self.tried) <= self._failures:
            raise CheckpointError("no room") from (OSError("full") if self._own else None)


class Hears(Observer):
    """Takes down what a worker tells of as missing."""

    def __init__(self):
        self.told = []

    def unwritten(self, worker, what, lacks):
        self.told.append((worker.team.rank, what, lacks))


@pytest.fixture
def train_with(make_worker, no_exchange, monkeypatch):
    """train_with(writer): what is told where steps 2, 4 and 5 are due."""
    monkeypatch.setattr(periodic, "LAST_PAUSES_SECONDS", (0.0, 0.0))

    def train(writer):
        hears = Hears()
        keeps = CheckpointObserver(writer, DueSteps(2, 5))
        assert make_worker(no_exchange(), observers=[hears, keeps]).run().steps == 5
        return hears.told

    return train


def test_checkpoint_that_cannot_be_written_ends_nothing_and_the_next_is_tried(train_with):
    writer = FailsFirst(1)
    assert train_with(writer) == [
        (0, "checkpoint", "no room"),
        (0, "checkpoint", ""),
        (0, "checkpoint", ""),
    ]
    assert writer.tried == [2, 4, 5]


@pytest.mark.parametrize(("failures", "last"), [(4, ""), (9, "no room")])
def test_last_checkpoint_is_tried_again(train_with, failures, last):
    writer = FailsFirst(failures)
    assert train_with(writer)[-1] == (0, "checkpoint", last)
    assert writer.tried == [2, 4, 5, 5, 5]


def test_failure_is_told_by_rank_0_and_by_those_who_have_failed(
    in_threads, make_worker, no_exchange, initial
):
    """All others know as well that there is no checkpoint, but not why."""

    def train(transport):
        writer, hears = FailsFirst(1, own=transport.rank == 2), Hears()
        keeps = CheckpointObserver(writer, DueSteps(2, 3))
        make_worker(no_exchange(3), transport=transport, steps=3, observers=[hears, keeps]).run()
        return [rank for rank, _, lacks in hears.told if lacks]

    assert in_threads(initial.size, 3, train) == [[0], [], [2]]
