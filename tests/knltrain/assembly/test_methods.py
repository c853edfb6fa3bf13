"""From the name of a method to its parts."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.assembly import build_method, build_network
from knltrain.assembly.factories import reference_kernels
from knltrain.assembly.methods import doubts_about, groups_of, strategy_of
from knltrain.assembly.rules import MethodContext
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.emulated_link import Link, SlowLink
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.strategies.asynchronous import OverlappedPushStrategy
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.loopback import Loopback
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet


@pytest.mark.parametrize("name", METHODS)
def test_method_meets_as_its_facts_say(config, name):
    workers = 1 if name in ("asgd", "mvasgd") else 4
    method, facts = build_method(config(exchange__method=name), workers), METHODS[name]
    assert method.name == name
    if facts.schedule == "never":
        assert method.period is None
    else:
        assert method.schedule == facts.schedule
    assert isinstance(method.rule, EASGD) == ("moving_rate" in facts.reads)
    assert method.strategy is strategy_of(config(exchange__method=name))
    assert (method.group_size > 0) == ("group_size" in facts.reads) == (facts.levels is not None)
    assert (method.stream is not None) == ("fragments" in facts.reads)


def test_momentum_at_the_center_is_the_configured_one(config):
    rule = build_method(
        config(exchange__method="async_msgd", exchange__center_momentum=0.5), 2
    ).rule
    assert isinstance(rule, Downpour)
    assert (rule.momentum, rule.nesterov, rule.center_vectors) == (0.5, False, 2)


def test_trees_of_layers_have_the_configured_branches(config):
    chosen = {"exchange__reduction_branches": 3, "exchange__broadcast_branches": 2}
    configuration = config(exchange__method="caffegpi", **chosen)
    method = build_method(configuration, 4, packed=build_network(configuration))
    assert method.branches == (3, 2)


def test_seasgd_pulls_after_the_step_and_writes_behind(config):
    method = build_method(config(exchange__method="seasgd"), 4)
    assert (method.after, method.rule.moving_rate) == ("step", 0.2)
    assert method.strategy is OverlappedPushStrategy


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"method": "sync_easgd"}, None),
        ({"method": "sync_easgd", "moving_rate": 0.6}, "past 1 / workers = 0.5"),
        ({"method": "seasgd", "moving_rate": 0.6}, "past 1 / workers = 0.5"),
        ({"method": "downpour", "communication_period": 16}, "communication_period = 16"),
        ({"method": "downpour", "communication_period": 2}, None),
        ({"method": "sync_sgd"}, None),
        ({"method": "hierarchical_sgd"}, "group_size = 1 with 2 workers: each worker is a group"),
        ({"method": "hierarchical_sgd", "group_size": 2}, "all workers are one group"),
    ],
)
def test_settings_that_may_not_be_stable_are_doubted(config, changes, doubt):
    chosen = config(**{f"exchange__{key}": value for key, value in changes.items()})
    found = doubts_about(chosen, 2)
    assert len(found) == (doubt is not None)
    if doubt is not None:
        assert doubt in found[0]


def test_groups_are_two_of_the_most_workers_where_nothing_else_is_said(config):
    assert build_method(config(exchange__method="shmcaffe_h"), 8).group_size == 4
    method = build_method(config(exchange__method="hierarchical_sgd", exchange__group_size=2), 8)
    inside, outside = method.levels.inside, method.levels.outside
    assert (method.group_size, outside.rule.workers, inside.rule.workers) == (2, 4, 2)
    assert (method.period, outside.period, inside.period) == (16, 16, 4)


@pytest.mark.parametrize(
    ("workers", "size", "groups"),
    [(8, None, (4, 2)), (9, None, (3, 3)), (7, None, (1, 7)), (8, 2, (2, 4))],
)
def test_groups_have_equal_sizes(config, workers, size, groups):
    settings = {} if size is None else {"exchange__group_size": size}
    chosen = config(exchange__method="shmcaffe_h", **settings)
    context = MethodContext(chosen, workers, lenet(), reference_kernels(), lambda _step: 0.1)
    assert groups_of(context) == groups


@pytest.mark.parametrize(
    ("changes", "workers", "problem"),
    [
        ({"method": "shmcaffe_h"}, 1, "with 1 worker: expected at least 2"),
        ({"method": "shmcaffe_h", "group_size": 3}, 4, "4 workers do not go in groups"),
        ({"method": "shmcaffe_h", "group_size": 4}, 2, "2 workers do not go in groups"),
        ({"method": "mvasgd"}, 2, "expected workers = 1, or 'mvadownpour'"),
        ({"method": "sync_sgd", "communication_period": 2}, 2, "use 1"),
        (
            {"method": "shmcaffe_h", "packing": "per_layer"},
            4,
            "expected exchange.packing = 'packed'",
        ),
        ({"method": "easgd", "packing": "per_layer"}, 4, "expected exchange.packing = 'packed'"),
        ({"method": "seasgd", "emulated_link_gbits": 10.0}, 4, "seasgd cannot be emulated"),
        ({"method": "shmcaffe_h", "emulated_link_gbits": 10.0}, 4, "shmcaffe_h cannot be emulated"),
        ({"method": "async_sgd", "emulated_link_gbits": 10.0}, 4, "async_sgd cannot be emulated"),
    ],
)
def test_what_does_not_fit_is_refused(config, changes, workers, problem):
    chosen = config(**{f"exchange__{key}": value for key, value in changes.items()})
    with pytest.raises(ConfigError, match=problem):
        build_method(chosen, workers)


def test_a_link_is_emulated_where_one_is_asked_for(config):
    over = {"exchange__emulated_link_gbits": 8.0, "exchange__emulated_latency_us": 50.0}
    plain = build_method(config(exchange__method="original_easgd"), 4)
    slow = build_method(config(exchange__method="original_easgd", **over), 4)
    assert not isinstance(plain.rule, SlowLink)
    assert isinstance(slow.rule, SlowLink)
    assert slow.rule._link == Link(bytes_per_second=1e9, latency_seconds=50e-6)
    assert slow.schedule == plain.schedule


def test_slow_momentum_takes_the_learning_rate_of_the_step(config):
    rule = build_method(config(exchange__method="slowmo"), 2, lambda step: 0.1 + step).rule
    rule.prepare(3)
    assert rule._now.velocity_rate == pytest.approx(3.1)
    assert rule._now.gain == pytest.approx(1 / 3.1)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_moves_running_statistics_beyond_the_workers(config, name):
    """Each of four workers has moved from 1 to 0.5: a sum of that would be a variance of -1."""
    workers = 1 if name in ("asgd", "mvasgd") else 4
    chosen = config(exchange__method=name, network__name="resnet-20")
    method = build_method(chosen, workers)
    levels = method.levels
    for one, together in (
        ((method, workers),)
        if levels is None
        else ((levels.inside, levels.group_size), (levels.outside, workers // levels.group_size))
    ):
        one.rule.prepare(0)
        for statistics in one.rule.statistics:
            for rule, part in one.rule.on(statistics):
                assert 0.5 - 1e-6 <= moved_by(rule, part.stop - part.start, together) <= 1
        assert one.rule.statistics


def moved_by(rule: ExchangeRule, size: int, workers: int) -> float:
    """Where the center at 1 is after an exchange of workers that are all at 0.5."""
    center, total = np.ones(size, np.float32), np.zeros(size, np.float32)
    kept = np.zeros((rule.center_vectors - 1, size), np.float32)
    if rule.moves == "gradient":
        center[:] = 0  # to which gradients are added, or which they replace
    rule.found(center, kept)
    for _ in range(workers):
        contribution = np.zeros(size, np.float32)
        rule.begin(center, contribution)
        rule.contribute(np.full(size, 0.5, np.float32), center, contribution)
        total += contribution
    rule.absorb(center, kept, total)
    return float(center[0])


@pytest.mark.parametrize("name", ["slowmo", "diloco", "streaming_diloco"])
def test_outer_momentum_does_not_move_running_statistics_beyond_the_workers(config, name):
    """A variance that went from 1 to 0.1 would be carried on to -0.2, and outputs be NaN."""
    chosen = config(exchange__method=name, network__name="resnet-20")
    method, network = build_method(chosen, 1), build_network(chosen)
    strategy = method.strategy
    vectors = method.rule.center_vectors
    part = strategy_in(method, Loopback(network.packed_size, vectors, strategy.needs_spares))
    part.start_from(np.ones(network.packed_size, np.float32))
    part.parameters[:] = 0.1
    part.exchange(0)
    part.settle()
    found = ParameterVector(network, part.model.copy()).views
    for spec in network.parameters:
        if spec.is_statistic:
            np.testing.assert_allclose(found[spec.name], 0.1, rtol=1e-6)
        elif name != "slowmo":  # which goes on by its momentum from the second time on
            assert (found[spec.name] < 0).all()
    part.close()
