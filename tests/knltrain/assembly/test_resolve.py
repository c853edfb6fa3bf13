"""The number of workers and what follows from it."""

from __future__ import annotations

import pytest

from knltrain.assembly.resolve import (
    fitted_data,
    fitted_network,
    group_size_of,
    moving_rate_of,
    resolve_workers,
    resolved,
)
from knltrain.errors import ConfigError
from knltrain.network.description import network_to_json
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet18


@pytest.mark.parametrize(
    ("workers", "batch", "cores", "expected"),
    [
        ("auto", 64, 1, 1),
        ("auto", 64, 4, 4),
        ("auto", 64, 6, 4),
        ("auto", 64, 64, 4),
        ("auto", 960, 64, 60),
        ("auto", 7, 6, 1),
        (3, 60, 1, 3),
    ],
)
def test_number_of_workers(config, workers, batch, cores, expected):
    assert resolve_workers(config(workers=workers, train__batch=batch), cores) == expected


def test_workers_that_cannot_share_a_batch_never_get_here(config):
    with pytest.raises(ValueError, match="do not divide evenly among 3 workers"):
        config(workers=3)


def test_resolved_run_leaves_nothing_open(config):
    chosen = resolved(config(workers="auto", train__batch=64), most=2)
    assert (chosen.workers, chosen.exchange.moving_rate) == (2, pytest.approx(0.45))
    given = resolved(config(workers="auto", train__batch=64, exchange__moving_rate=0.1), 2)
    assert given.exchange.moving_rate == 0.1
    averaged = resolved(config(workers="auto", train__batch=64, exchange__method="sync_sgd"), 2)
    assert averaged.exchange.moving_rate is None


@pytest.mark.parametrize("method", ["sync_easgd", "seasgd"])
def test_moving_rate_follows_from_beta_or_from_rho_and_the_learning_rate(config, method):
    given = {"workers": 3, "train__batch": 15, "exchange__method": method}
    given["learning_rate__base"] = 0.05
    assert resolved(config(**given, exchange__beta=0.6)).exchange.moving_rate == pytest.approx(0.2)
    by_rho = resolved(config(**given, exchange__rho=2.0)).exchange
    assert by_rho.moving_rate == pytest.approx(0.1)
    assert by_rho.beta is by_rho.rho is None  # a run's folder says it once
    with pytest.raises(
        ConfigError, match=r"rho = 20 with a learning rate of 0.05 is a moving rate"
    ):
        resolved(config(**given, exchange__rho=20.0))


def test_beta_of_one_worker_is_below_one(config):
    assert resolved(config(workers=2, exchange__beta=1.0)).exchange.moving_rate == 0.5
    with pytest.raises(ConfigError, match=r"beta = 1.0 with 1 worker is a moving rate of 1: expec"):
        resolved(config(workers=1, exchange__beta=1.0))


def test_centers_of_groups_have_a_rate_of_their_own_members(config):
    given = config(workers=4, exchange__method="hierarchical_easgd", exchange__beta=0.6)
    assert resolved(given).exchange.beta == 0.6
    assert moving_rate_of(given, 2) == pytest.approx(0.3)


def test_beta_and_rho_are_of_elastic_methods(config):
    with pytest.raises(ValueError, match=r"exchange.beta = 0.5 is read by .*, not by sync_sgd"):
        config(exchange__method="sync_sgd", exchange__beta=0.5)


@pytest.mark.parametrize(("given", "size"), [(None, 4), (4, 4), (2, 2), (1, 1)])
def test_groups_that_come_alone_lie_within_a_computer(config, given, size):
    settings = {} if given is None else {"exchange__group_size": given}
    chosen = config(workers=4, nodes=2, exchange__method="shmcaffe_h", **settings)
    assert group_size_of(chosen, 8) == size
    assert resolved(chosen).exchange.group_size == size


@pytest.mark.parametrize("given", [3, 8])
def test_groups_that_would_lie_on_two_computers_are_refused(config, given):
    chosen = config(workers=4, nodes=2, exchange__method="shmcaffe_h", exchange__group_size=given)
    with pytest.raises(ConfigError, match=f"group_size = {given}.* 4 workers .* a divisor of 4"):
        group_size_of(chosen, 8)


def test_groups_that_meet_are_all_workers_of_a_computer(config):
    chosen = config(workers=4, nodes=2, exchange__method="hierarchical_sgd", exchange__group_size=2)
    with pytest.raises(ConfigError, match="on 2 computers the 4 workers of each are a group"):
        group_size_of(chosen, 8)


def test_network_of_the_zoo_takes_images_of_the_size_that_is_configured(config):
    known = fitted_network(config(network__name="resnet-18"))
    assert known == resnet18()
    own = fitted_network(config(network__name="resnet-18", data__side_pixels=96))
    assert (own.input_shape, own.name) == ((96, 96, 3), "resnet-18")
    assert own.parameter_count == known.parameter_count
    assert own.shape_of("layer4/1/relu") == (3, 3, 512)


def test_network_of_a_file_stays_as_it_is(config, tmp_path):
    file = tmp_path / "own.json"
    file.write_text(network_to_json(lenet()))
    assert fitted_network(config(network__name=str(file), data__side_pixels=40)) == lenet()


def test_size_that_leaves_nothing_is_refused_with_the_layer(config):
    with pytest.raises(ConfigError, match=r"side_pixels = 32: network 'googlenet' .*'pool4/3x3_s2"):
        fitted_network(config(network__name="googlenet", data__side_pixels=32))


@pytest.mark.parametrize(
    ("own", "image", "classes"),
    [
        ({}, (28, 28, 1), 10),
        ({"network__classes": 7, "data__side_pixels": 20}, (20, 20, 1), 7),
        ({"data__image": (9, 8, 1)}, (9, 8, 1), 10),
        ({"data__classes": 3}, (28, 28, 1), 3),
    ],
)
def test_what_is_left_out_of_computed_pictures_is_the_network_s(config, own, image, classes):
    found = fitted_data(config(data__name="random", **own))
    assert (found.image, found.classes) == (image, classes)


def test_nothing_is_known_of_a_module(config):
    own = {"network__name": "own.py:f", "network__module": "own.py:f"}
    chosen = config(data__name="random", **own)
    assert fitted_data(chosen) == chosen.data
