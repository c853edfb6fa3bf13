"""Steps of real trainings on this machine, timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.predict.steps import Ground, Steps, configuration, steps_of
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig
from knltrain.errors import ConfigError


def test_a_run_has_so_many_images_of_each_worker_and_keeps_nothing() -> None:
    found = configuration("lenet", "sync_easgd", 2, 4, 16, 20)
    assert (found.total_workers, found.total_nodes) == (4, 2)
    assert found.train.batch == 64
    assert found.data.name == "digits"
    assert (found.placement.pin, found.backend.threads) == (True, "auto")
    of_a_node, of_hosts = (configuration("lenet", "none", nodes, 2, 16, 20) for nodes in (1, 2))
    assert (of_a_node.train.trace_steps, of_hosts.train.trace_steps) == (21, 0)
    shared = configuration("lenet", "sync_easgd", 2, 4, 16, 20, shares_cores=True)
    assert (shared.placement.pin, shared.backend.threads) == (False, 1)
    assert not found.evaluation.at_end
    assert not found.checkpoint.at_end


def test_networks_of_coloured_pictures_draw_as_many_as_they_need() -> None:
    found = configuration("cifar-quick", "none", 1, 2, 8, 20)
    assert (found.data.name, found.data.train_images) == ("synthetic", 64)


def test_methods_that_cannot_train_so_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected workers = 1"):
        configuration("lenet", "asgd", 2, 2, 8, 20)


def test_workers_wait_for_the_slowest_of_each_period() -> None:
    """One is slow in each second step, the other one in the others."""
    found = Steps(0.0, np.array([[1.0, 3.0, 1.0, 3.0, 9.0], [3.0, 1.0, 3.0, 1.0, 9.0]]))
    assert found.waiting(1) == pytest.approx(4 / 5)
    assert found.waiting(2) == 0.0
    assert found.waiting(6) == 0.0
    slow = Steps(0.0, np.array([[1.0] * 4, [2.0] * 4]))
    assert (slow.waiting(1), slow.waiting(4)) == (0.5, 0.5)


def _of_a_node(method: str, steps: int) -> RunConfig:
    """A run that ends after so many timed steps."""
    run = configuration("lenet", method, 1, 2, 8, steps)
    return run.model_copy(update={"train": run.train.model_copy(update={"steps": steps + 1})})


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_what_workers_compute_alone_is_known_step_by_step(tmp_path: Path) -> None:
    found = steps_of(_of_a_node("none", 12), Ground(None, cores_of(2)), tmp_path)
    assert found.computing.shape == (2, 12)
    assert found.computing.min() > 0
    assert found.computing.mean() < 2 * found.seconds


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_a_training_that_fails_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    ground = Ground(None, cores_of(2))
    whole = _of_a_node("sync_sgd", 20)
    rate = whole.learning_rate.model_copy(update={"base": 1e30})
    with pytest.raises(PeerError, match="is not finite"):
        steps_of(whole.model_copy(update={"learning_rate": rate}), ground, tmp_path)
    assert not list(tmp_path.iterdir())
