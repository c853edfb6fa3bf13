from __future__ import annotations

from dataclasses import replace

import pytest

from knltrain.bench.methods.entrants import (
    ALONE,
    Entrant,
    Scaling,
    configuration,
    entrants,
    learning_of,
)
from knltrain.bench.methods.task import task_named
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError


def test_all_methods_take_part_and_one_worker_alone() -> None:
    everyone = entrants(["all"], workers=4)
    assert [each.name for each in everyone] == [ALONE, *METHODS]
    assert {each.name for each in everyone if each.workers == 1} == {ALONE, "asgd", "mvasgd"}
    assert {each.workers for each in everyone} == {1, 4}


@pytest.mark.parametrize("workers", [2, 4])
def test_every_run_can_be_described_and_takes_the_same_images(workers: int) -> None:
    task = task_named("lenet", "/somewhere")
    for each in entrants(["all"], workers):
        config = configuration(each, task, threads=None, seed=3)
        assert (config.train.epochs, config.train.batch, config.seed) == (8, 64, 3)
        assert config.exchange.method == each.method
        assert config.data.root == "/somewhere"


def test_settings_become_a_configuration() -> None:
    task = task_named("lenet", None)
    [_, entrant] = entrants(["mvadownpour"], 2)
    config = configuration(entrant, task, threads=1, seed=1)
    assert (config.learning_rate.base, config.learning_rate.warmup_steps) == (0.05, 33)
    assert config.exchange.averaging_rate == 0.01
    assert config.optimizer.momentum == 0.0  # the method's own
    assert config.backend.threads == 1


def test_a_link_is_emulated_for_several_workers_alone() -> None:
    task = task_named("lenet", None)
    link = {"emulated_link_gbits": 10.0, "emulated_latency_us": 5.0}
    alone, several = (
        configuration(each, task, threads=1, seed=1, link=link).exchange
        for each in entrants(["sync_easgd3"], 2)
    )
    assert alone.emulated_link_gbits is None
    assert (several.emulated_link_gbits, several.emulated_latency_us) == (10.0, 5.0)


@pytest.mark.parametrize(("scaling", "rate"), [("strong", 0.005), ("weak", 0.02)])
def test_workers_that_never_meet_have_the_rate_of_their_own_images(
    scaling: Scaling, rate: float
) -> None:
    four = learning_of(Entrant("none", "none", 4), task_named("lenet", None), scaling)
    assert four.rate == rate


def test_a_batch_for_each_worker_makes_fewer_and_longer_steps() -> None:
    task = task_named("lenet", None)
    alone, two = (
        configuration(Entrant("it", method, workers), task, threads=1, seed=1, scaling="weak")
        for method, workers in (("none", 1), ("sync_easgd3", 2))
    )
    assert (alone.train.batch, two.train.batch) == (64, 128)
    rate = task.settings["sync_easgd3"].learning_rate
    assert (alone.learning_rate.base, two.learning_rate.base) == (0.02, 2 * rate)
    for method in ("sync_easgd3", "sync_sgd"):
        entrant = Entrant("it", method, 2)
        two = configuration(entrant, task, threads=1, seed=1, scaling="weak")
        assert two.learning_rate.warmup_steps == 1438 // 128


def test_workers_are_pinned_where_there_are_cores_for_all() -> None:
    task = task_named("lenet", None)
    [alone, crowd] = entrants(["sync_sgd"], 64 * 1024)
    many = replace(task, batch=64 * 1024)
    assert configuration(alone, many, threads=1, seed=1).placement.pin
    assert not configuration(crowd, many, threads=1, seed=1).placement.pin


def test_unknown_names_are_refused_with_the_likely_one() -> None:
    with pytest.raises(ConfigError, match=r"--methods 'sync_eagsd'.*did you mean 'sync_easgd'"):
        entrants(["sync_eagsd"], 2)
    with pytest.raises(ConfigError, match="expected names as"):
        entrants([], 2)
