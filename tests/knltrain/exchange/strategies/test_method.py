from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.method import Method, Stream
from vectorized_ops.reference import downpour, elastic
from vectorized_ops.reference.elastic import synchronous_average

RULE = ModelAveraging(1, synchronous_average)


def test_exchange_is_due_in_step_0_and_every_period_steps_after() -> None:
    method = Method("local_sgd", RULE, "parameters", period=3)
    assert [step for step in range(8) if method.due(step)] == [0, 3, 6]


def test_without_period_no_exchange_is_ever_due() -> None:
    method = Method("none", RULE, "parameters", period=None)
    assert not any(method.due(step) for step in range(5))


def test_period_below_one_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="communication_period = 0"):
        Method("sync_easgd", RULE, "parameters", period=0)


ALONE = Downpour(downpour)


def test_exchange_after_the_step_is_due_when_so_many_steps_are_done() -> None:
    method = Method("downpour", ALONE, "parameters", 3, "first_come", "step")
    assert [step for step in range(9) if method.due(step)] == [2, 5, 8]


def test_rule_for_workers_alone_is_refused_where_all_meet() -> None:
    with pytest.raises(ConfigError, match=r"Downpour is for workers that come to the center alone"):
        Method("downpour", ALONE, "parameters")


def test_gradients_of_workers_that_come_alone_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"gradients are exchanged by all workers at once"):
        Method("sync_sgd", RULE, "gradient", schedule="first_come")


def test_writing_behind_is_refused_where_all_meet_or_locals_follow() -> None:
    elastic_rule = EASGD(0.5, elastic)
    with pytest.raises(ConfigError, match="write behind"):
        Method("seasgd", elastic_rule, "parameters", overlap="writes")
    with pytest.raises(ConfigError, match="write behind"):
        Method("downpour", ALONE, "parameters", schedule="first_come", overlap="writes")


def test_vectors_are_those_that_a_worker_needs_besides() -> None:
    elastic_rule = EASGD(0.5, elastic)
    assert Method("sync_easgd", elastic_rule, "parameters").vectors == 0
    behind = Method("s", elastic_rule, "parameters", 1, "first_come", "step", "writes")
    assert behind.vectors == 1
    assert Method("sync_easgd3", elastic_rule, "parameters", overlap="gradient").vectors == 1
    grouped = Method("h", elastic_rule, "parameters", inside=Method("s", RULE, "gradient"))
    assert grouped.vectors == 2
    heavy = Downpour(downpour, 0.9)
    assert Method("async_msgd", heavy, "parameters", 1, "first_come", "step").vectors == 2


def test_gradients_with_a_period_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"sync_sgd exchanges gradients.*use 1"):
        Method("sync_sgd", RULE, "gradient", period=2)


@pytest.mark.parametrize(
    "changes", [{"moves": "gradient"}, {"schedule": "first_come"}, {"after": "step"}]
)
def test_only_plain_exchanges_from_before_a_step_go_on_meanwhile(changes: dict[str, str]) -> None:
    settings = {"moves": "parameters", **changes}
    rule = RULE if settings["moves"] == "gradient" else EASGD(0.5, elastic)
    with pytest.raises(ConfigError, match="while its gradient is computed"):
        Method("sync_easgd3", rule, overlap="gradient", **settings)  # type: ignore[arg-type]


def test_only_gradients_that_all_exchange_at_once_go_while_they_are_computed() -> None:
    parts = (slice(0, 5), slice(5, 10))
    found = Method("layerwise_sgd", RULE, "gradient", overlap="backward", parts=parts)
    assert (found.parts, found.vectors) == (parts, 1)
    with pytest.raises(ConfigError, match="layer by layer while they are computed"):
        Method("m", RULE, "parameters", overlap="backward")
    with pytest.raises(ConfigError, match="expected one of these"):
        Method("m", RULE, "gradient", overlap="backward", at_master=True)


def test_only_plain_exchanges_go_layer_by_layer() -> None:
    parts = (slice(0, 5), slice(5, 10))
    assert Method("local_sgd", RULE, "parameters", parts=parts).parts == parts
    for changes in ({"schedule": "first_come"}, {"overlap": "gradient"}, {"at_master": True}):
        with pytest.raises(ConfigError, match=r"expected exchange\.packing = 'packed'"):
            Method("m", EASGD(0.5, elastic), "parameters", parts=parts, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"at_master": True, "overlap": "gradient"},
        {"at_master": True, "stream": Stream((slice(0, 1),))},
        {"at_master": True, "schedule": "first_come"},
        {"computes_in_turn": True, "schedule": "first_come"},
    ],
)
def test_ways_that_exclude_one_another_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"expected one of these|compute in turn"):
        Method("m", EASGD(0.5, elastic), "parameters", **changes)  # type: ignore[arg-type]


def test_first_steps_may_each_have_an_exchange() -> None:
    method = Method("p", RULE, "parameters", 4, after="step", every_step_until=3)
    assert [step for step in range(12) if method.due(step)] == [0, 1, 2, 3, 7, 11]


def test_groups_meet_when_their_workers_do() -> None:
    inside = Method("inside", RULE, "parameters", 3, after="step")
    with pytest.raises(ConfigError, match=r"period = 8: expected a multiple of .*period = 3"):
        Method("h", RULE, "parameters", 8, after="step", inside=inside)


@pytest.mark.parametrize(
    ("period", "stream", "problem"),
    [
        (7, Stream((slice(0, 1), slice(1, 2))), "expected a multiple of exchange.fragments = 2"),
        (8, Stream((slice(0, 1), slice(1, 2)), 4), "delay_steps = 4: expected at least 0 and less"),
        (8, Stream((slice(0, 1),), 0, 1.0), "mixing = 1.0"),
    ],
)
def test_fragments_have_slots_of_whole_steps(period: int, stream: Stream, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Method("s", RULE, "parameters", period, after="step", stream=stream)


def test_each_fragment_has_one_slot_in_a_period() -> None:
    first, second = slice(0, 1), slice(1, 2)
    stream = Stream((first, second))
    found = [stream.fragment_after(steps, 6) for steps in range(13)]
    assert found == [{3: first, 6: second, 9: first, 12: second}.get(steps) for steps in range(13)]
