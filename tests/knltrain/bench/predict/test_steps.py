"""Steps of real trainings on this machine, timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.predict.steps import Ground, configuration, overlaps, seconds_of_step
from knltrain.bench.step.peer_process import PeerError
from knltrain.errors import ConfigError


def test_a_run_has_so_many_steps_and_images_of_each_worker_and_keeps_nothing() -> None:
    found = configuration("lenet", "sync_easgd", 2, 4, 16, 20)
    assert (found.total_workers, found.total_nodes) == (4, 2)
    assert (found.train.batch, found.train.steps) == (64, 21)
    assert found.data.name == "digits"
    assert not found.evaluation.at_end
    assert not found.checkpoint.at_end


def test_networks_of_coloured_pictures_draw_as_many_as_they_need() -> None:
    found = configuration("cifar-quick", "none", 1, 2, 8, 20)
    assert (found.data.name, found.data.train_images) == ("synthetic", 64)


def test_methods_that_cannot_train_so_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected workers = 1"):
        configuration("lenet", "asgd", 2, 2, 8, 20)


@pytest.mark.parametrize(("method", "expected"), [("sync_easgd3", True), ("sync_easgd", False)])
def test_methods_tell_whether_they_overlap(method: str, expected: bool) -> None:
    assert overlaps(configuration("lenet", method, 1, 2, 8, 20)) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_a_training_that_fails_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    ground = Ground(None, cores_of(2))
    whole = configuration("lenet", "sync_sgd", 1, 2, 8, 20)
    rate = whole.learning_rate.model_copy(update={"base": 1e30})
    with pytest.raises(PeerError, match="is not finite"):
        seconds_of_step(whole.model_copy(update={"learning_rate": rate}), ground, tmp_path)
    assert not list(tmp_path.iterdir())
