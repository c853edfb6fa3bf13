from __future__ import annotations

import pytest

from knltrain.assembly.names import build_dataset, build_network, plain_method
from knltrain.assembly.whole_run import check_fit, check_period
from knltrain.bench.methods.entrants import Entrant, configuration
from knltrain.bench.methods.task import task_named
from knltrain.config import DataConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError


def test_lenet_learns_mnist_where_that_is_and_else_the_digits() -> None:
    there, here = task_named("lenet", "/somewhere"), task_named("lenet", None)
    assert (there.data["name"], there.data["root"], there.train_images) == (
        "mnist-t10k",
        "/somewhere",
        9000,
    )
    assert (here.data["name"], here.train_images) == ("digits", 1438)
    assert DataConfig(**there.data).shift_pixels == DataConfig(**here.data).shift_pixels == 2


@pytest.mark.parametrize("network", ["lenet", "cifar-quick", "googlenet"])
def test_task_knows_how_many_images_there_are(network: str) -> None:
    task = task_named(network, None)
    config = configuration(Entrant(network, "none", 1), task, threads=1, seed=1)
    assert len(build_dataset(config).train) == task.train_images
    check_fit(build_network(config), build_dataset(config))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_meets_in_the_few_steps_of_googlenet(method: str) -> None:
    entrant = Entrant(method, method, 1 if method in ("none", "asgd", "mvasgd") else 2)
    config = configuration(entrant, task_named("googlenet", None), threads=1, seed=1)
    check_period(plain_method(config, entrant.workers), 8)


@pytest.mark.parametrize("network", ["cifar-quick", "googlenet"])
def test_some_networks_read_no_data(network: str) -> None:
    with pytest.raises(ConfigError, match=f"--data-root /somewhere: {network} learns synthetic"):
        task_named(network, "/somewhere")


def test_a_network_without_a_task_is_refused_with_the_likely_one() -> None:
    with pytest.raises(ConfigError, match=r"--network 'lenett'.*did you mean 'lenet'"):
        task_named("lenett", None)
