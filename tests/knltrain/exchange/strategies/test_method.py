from __future__ import annotations

from dataclasses import replace

import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.strategies.asynchronous import (
    AsynchronousStrategy,
    InTurnStrategy,
    OverlappedPushStrategy,
)
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.layer_trees import LayerTreeStrategy
from knltrain.exchange.strategies.method import Levels, Method, StrategyTraits
from knltrain.exchange.strategies.overlapped import LayerwiseStrategy, OverlappedStrategy
from knltrain.exchange.strategies.streaming import StreamingStrategy
from knltrain.exchange.strategies.synchronous import MasterStrategy, SynchronousStrategy
from vectorized_ops.reference import downpour, elastic
from vectorized_ops.reference.elastic import synchronous_average

MEAN = ModelAveraging(1, synchronous_average)
GRADIENTS = GradientMean(1, synchronous_average)
PULL = EASGD(0.5, elastic)
PUSH = Downpour(downpour)
PARTS = (slice(0, 5), slice(5, 10))


def test_exchange_is_due_in_step_0_and_every_period_steps_after() -> None:
    method = Method("local_sgd", MEAN, SynchronousStrategy, period=3)
    assert [step for step in range(8) if method.due(step)] == [0, 3, 6]


def test_without_period_no_exchange_is_ever_due() -> None:
    method = Method("none", MEAN, SynchronousStrategy, period=None)
    assert not any(method.due(step) for step in range(5))


def test_exchange_after_the_step_is_due_when_so_many_steps_are_done() -> None:
    method = Method("downpour", PUSH, AsynchronousStrategy, 3, "first_come", "step")
    assert [step for step in range(9) if method.due(step)] == [2, 5, 8]


def test_first_steps_may_each_have_an_exchange() -> None:
    method = Method("p", MEAN, SynchronousStrategy, 4, after="step", every_step_until=3)
    assert [step for step in range(12) if method.due(step)] == [0, 1, 2, 3, 7, 11]


@pytest.mark.parametrize(
    ("rule", "strategy", "settings", "problem"),
    [
        (MEAN, SynchronousStrategy, {"period": 0}, "communication_period = 0"),
        (GRADIENTS, SynchronousStrategy, {"period": 2}, "exchanges gradients.*use 1"),
        (PUSH, SynchronousStrategy, {}, "Downpour is for workers that visit the center"),
        (PULL, SynchronousStrategy, {"schedule": "first_come"}, "for the schedules 'synchronous'"),
        (PULL, MasterStrategy, {"schedule": "first_come"}, "for the schedules 'synchronous'"),
        (PULL, AsynchronousStrategy, {}, "schedules 'first_come', .*, got 'synchronous'"),
        (PULL, OverlappedPushStrategy, {}, "schedules 'first_come', .*, got 'synchronous'"),
        (PULL, InTurnStrategy, {"schedule": "first_come"}, "for the schedules 'round_robin'"),
        (GRADIENTS, AsynchronousStrategy, {"schedule": "first_come"}, "by all workers at once"),
        (
            PUSH,
            OverlappedPushStrategy,
            {"schedule": "first_come"},
            "push in the background; expected EASGD",
        ),
        (GRADIENTS, OverlappedStrategy, {}, "go on while its gradient is computed"),
        (PULL, OverlappedStrategy, {"after": "step"}, "go on while its gradient is computed"),
        (MEAN, LayerwiseStrategy, {}, "only for gradients, which all workers"),
        (MEAN, LayerTreeStrategy, {}, "only for gradients, which all workers"),
        (MEAN, StreamingStrategy, {}, "expected a stream of fragments"),
        (MEAN, HierarchicalStrategy, {}, "expected the methods of two levels"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(
    rule: ExchangeRule, strategy: type[StrategyTraits], settings: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Method("m", rule, strategy, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "strategy", "schedule"),
    [
        (PULL, AsynchronousStrategy, "first_come"),
        (PULL, OverlappedStrategy, "synchronous"),
        (PULL, MasterStrategy, "synchronous"),
    ],
)
def test_only_plain_exchanges_go_layer_by_layer(
    rule: ExchangeRule, strategy: type[StrategyTraits], schedule: str
) -> None:
    for of_all, with_parts in ((MEAN, SynchronousStrategy), (GRADIENTS, LayerwiseStrategy)):
        assert Method("m", of_all, with_parts, parts=PARTS).parts == PARTS
    with pytest.raises(ConfigError, match=r"expected exchange\.packing = 'packed'"):
        Method("m", rule, strategy, schedule=schedule, parts=PARTS)  # type: ignore[arg-type]


def test_vectors_are_those_that_a_worker_needs_besides() -> None:
    plain = Method("sync_easgd", PULL, SynchronousStrategy)
    behind = Method("seasgd", PULL, OverlappedPushStrategy, 1, "first_come", "step")
    heavy = Method(
        "async_msgd", Downpour(downpour, 0.9), AsynchronousStrategy, 1, "first_come", "step"
    )
    grouped = replace(behind, strategy=HierarchicalStrategy, levels=Levels(2, plain, behind))
    by_layer = Method("layerwise_sgd", GRADIENTS, LayerwiseStrategy, parts=PARTS)
    master = Method("sync_easgd1", PULL, MasterStrategy)
    meanwhile = Method("sync_easgd3", PULL, OverlappedStrategy)
    methods = (plain, behind, master, meanwhile, by_layer, heavy, grouped)
    found = [method.strategy.vectors(method) for method in methods]
    assert found == [0, 1, 1, 1, 1, 2, 3]


def test_who_comes_alone_at_any_time_or_seldom() -> None:
    told = {
        name: (method.comes_alone, method.comes_at_any_time, method.meets_seldom)
        for name, method in {
            "together": Method("m", MEAN, SynchronousStrategy, after="step"),
            "seldom": Method("m", MEAN, SynchronousStrategy, 4, after="step"),
            "before the step": Method("m", PULL, SynchronousStrategy, 4),
            "never": Method("m", GRADIENTS, SynchronousStrategy, None),
            "in turn": Method("m", PULL, AsynchronousStrategy, 4, "round_robin", "step"),
            "as they come": Method("m", PULL, AsynchronousStrategy, 4, "first_come", "step"),
        }.items()
    }
    assert told == {
        "together": (False, False, False),
        "seldom": (False, False, True),
        "before the step": (False, False, False),
        "never": (False, True, False),
        "in turn": (True, False, False),
        "as they come": (True, True, False),
    }


def test_gradients_count_by_their_images_and_parameters_do_not() -> None:
    gradients = Method("m", GRADIENTS, SynchronousStrategy)
    assert [gradients.weight_of(rank, (3, 1, 0)) for rank in range(3)] == [9 / 4, 3 / 4, 0]
    assert gradients.weight_of(1, (4, 4, 4)) == 1
    assert Method("m", MEAN, SynchronousStrategy, after="step").weight_of(0, (3, 1)) == 1


def test_in_groups_gradients_count_by_the_images_of_their_group() -> None:
    inside = Method("m", GRADIENTS, SynchronousStrategy)
    outside = Method("m", MEAN, SynchronousStrategy, after="step")
    method = replace(outside, levels=Levels(2, inside, outside))
    shares = (6, 2, 0, 0, 4, 4)
    assert [method.weight_of(rank, shares) for rank in range(6)] == [1.5, 0.5, 1, 1, 1, 1]
    of_parameters = replace(outside, levels=Levels(2, outside, outside))
    assert of_parameters.weight_of(0, shares) == 1


def test_gradients_that_are_never_exchanged_have_no_weight_and_none_may_idle() -> None:
    never = Method("m", GRADIENTS, SynchronousStrategy, None)
    assert never.weight_of(0, (3, 1)) == 1
    assert not never.may_idle
    assert not Method("m", MEAN, SynchronousStrategy, after="step").may_idle
    assert Method("m", GRADIENTS, SynchronousStrategy).may_idle
