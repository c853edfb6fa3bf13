"""Exchanges of workers on several nodes that write what they send in fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from knltrain.communication.internode.wire.compressed import CompressedCollective
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.stream import Stream
from knltrain.exchange.strategies.streaming import StreamingStrategy
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.across_nodes import CrossNodeTransport
from vectorized_ops.reference import elastic

from ....exchange.thread_nodes import across, vector
from .formats import FORMATS, KEEPING

SIZE = 20_003
PLACES = [(2, 1), (2, 3), (3, 2), (4, 1)]
"""Nodes, and workers of each."""

Across = Callable[..., list[Any]]


def across_by(name: str, nodes: int, of_node: int, size: int = SIZE) -> Across:
    written = lambda inner: CompressedCollective(inner, FORMATS[name](size), size)  # noqa: E731
    return partial(across, nodes=nodes, of_node=of_node, size=size, written=written)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one.view(np.int32), other.view(np.int32))


@pytest.mark.parametrize(("nodes", "of_node"), PLACES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("parts", [[slice(None)], [slice(9_000, None), slice(0, 9_000)]])
def test_replicas_are_equal_and_pulls_move_nothing_away(
    name: str, nodes: int, of_node: int, parts: list[slice]
) -> None:
    workers = nodes * of_node

    def work(team: CrossNodeTransport) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        team.start_from(vector(99, SIZE) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank, SIZE)
        rule = EASGD(0.9 / workers, elastic)
        for _ in range(3):
            for part in parts:
                team.exchange(rule, part)
        return team.local.copy(), team.center.copy(), team.residual.copy()

    found = across_by(name, nodes, of_node)(work, EASGD(0.9 / workers, elastic))
    center = found[0][1]
    assert all(same_bits(other, center) for _, other, _ in found)
    assert not any(residual.any() for _, _, residual in found)
    before = vector(99, SIZE) + np.sum([vector(rank, SIZE) for rank in range(workers)], axis=0)
    after = center + np.sum([local for local, _, _ in found], axis=0)
    limit = 1e-5 if name in KEEPING else 2.0**-7 * 3
    np.testing.assert_allclose(after, before, atol=limit * workers)
    assert not same_bits(center, vector(99, SIZE))


@pytest.mark.parametrize(("nodes", "of_node"), PLACES)
@pytest.mark.parametrize("name", KEEPING)
def test_what_an_average_has_not_carried_is_kept(name: str, nodes: int, of_node: int) -> None:
    workers = nodes * of_node
    rule = ModelAveraging(workers, elastic.synchronous_average)

    def work(team: CrossNodeTransport) -> tuple[np.ndarray, np.ndarray]:
        team.start_from(np.zeros(SIZE, np.float32) if team.rank == 0 else None)
        team.barrier()
        for _ in range(3):
            team.local += vector(team.rank, SIZE)
            team.exchange(rule)
            assert same_bits(team.local, team.center)
        return team.center.copy(), team.residual.copy()

    found = across_by(name, nodes, of_node)(work, rule)
    assert all(same_bits(center, found[0][0]) for center, _ in found)
    arrived = found[0][0] + sum(residual for _, residual in found if residual.size)
    moved = 3 * np.mean([vector(rank, SIZE) for rank in range(workers)], axis=0)
    np.testing.assert_allclose(arrived, moved, atol=2e-5)


@pytest.mark.parametrize(("nodes", "of_node"), PLACES)
@pytest.mark.parametrize("name", FORMATS)
def test_fragments_keep_what_they_have_not_carried(name: str, nodes: int, of_node: int) -> None:
    """Each fragment is exchanged once in a period, with its own part of the residual."""
    workers, cut = nodes * of_node, 9_001
    rule = ModelAveraging(workers, elastic.synchronous_average)
    stream = Stream((slice(0, cut), slice(cut, SIZE)))

    def work(team: CrossNodeTransport) -> tuple[np.ndarray, np.ndarray]:
        method = Method("any", rule, StreamingStrategy, 2, after="step", stream=stream)
        part = strategy_in(method, team)
        part.start_from(np.zeros(SIZE, np.float32))
        team.barrier()
        for step in range(4):
            part.parameters[:] += vector(team.rank, SIZE)
            part.stepped(step)
        part.settle()
        team.barrier()
        return team.center.copy(), team.residual.copy()

    found = across_by(name, nodes, of_node)(work, rule, at_master=True)
    assert all(same_bits(center, found[0][0]) for center, _ in found)
    arrived = found[0][0] + sum(residual for _, residual in found if residual.size)
    moved = np.mean([vector(rank, SIZE) for rank in range(workers)], axis=0)
    moved = moved * np.where(np.arange(SIZE) < cut, 3, 4)  # the other one has one step more
    np.testing.assert_allclose(arrived, moved, atol=5e-5 if name in KEEPING else 0.2)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("averages", [True, False])
def test_what_is_kept_goes_into_a_checkpoint_and_ends_with_a_start(
    name: str, averages: bool
) -> None:
    rule: SynchronousRule = EASGD(0.2, elastic)
    if averages:
        rule = ModelAveraging(4, elastic.synchronous_average)

    def work(team: CrossNodeTransport) -> set[str]:
        part = strategy_in(Method("any", rule, SynchronousStrategy), team)
        part.start_from(vector(99, SIZE))
        team.barrier()
        team.local[:] = vector(team.rank, SIZE)
        part.exchange(0)
        state = {key: values.any() for key, values in part.state().items()}
        assert all(state.values())
        team.barrier()
        part.start_from(vector(99, SIZE))
        assert not any(values.any() for values in part.state().values())
        return set(state)

    kept = {"residual"} if averages and name in KEEPING else set()
    assert across_by(name, 2, 2)(work, rule) == [kept, set(), kept, set()]


@pytest.mark.parametrize("name", KEEPING)
def test_gradients_arrive_in_the_long_run(name: str) -> None:
    """They are no differences from the center, which would add up what was left behind twice."""
    size, steps, nodes = 500, 400, 2
    rule = GradientMean(nodes, elastic.synchronous_average)

    def work(team: CrossNodeTransport) -> np.ndarray:
        team.start_from(np.ones(size, np.float32) if team.rank == 0 else None)
        team.barrier()
        arrived = np.zeros(size)
        for _ in range(steps):
            team.local[:] = vector(team.rank, size)
            team.exchange(rule)
            arrived += team.center
        return arrived / steps

    mean = np.mean([vector(rank, size) for rank in range(nodes)], axis=0)
    for found in across_by(name, nodes, 1, size)(work, rule):
        assert np.abs(found - mean).max() <= {"int8": 0.01, "float4": 0.02, "top_k": 0.3}[name]


class KeepsWhatIsLeft(SynchronousRule):
    """Elastic averaging that sends what has not got through with the next pull instead."""

    follows = False

    def __init__(self, rule: EASGD) -> None:
        self.contribute, self.absorb = rule.contribute, rule.absorb  # type: ignore[method-assign]
        self.follow, self.synchronise = rule.follow, rule.synchronise  # type: ignore[method-assign]

    contribute = absorb = follow = synchronise = lambda *_: None  # type: ignore[assignment]


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "of_node"), PLACES)
def test_locals_come_together_however_few_values_are_sent(nodes: int, of_node: int) -> None:
    """Where pulls are kept for later, they overshoot, and never come to rest."""
    size, workers = 1000, nodes * of_node
    elastic_rule = EASGD(0.9 / workers, elastic)

    def apart(rule: SynchronousRule) -> float:
        def work(team: CrossNodeTransport) -> float:
            team.start_from(np.zeros(size, np.float32) if team.rank == 0 else None)
            team.barrier()
            team.local[:] = vector(team.rank, size)
            for _ in range(600):
                team.exchange(rule)
            return float(np.abs(team.local - team.center).max())

        return max(across_by("top_k", nodes, of_node, size)(work, rule))

    assert apart(elastic_rule) < 0.1
    assert not apart(KeepsWhatIsLeft(elastic_rule)) < 1


def test_master_sends_the_center_whole() -> None:
    def work(team: CrossNodeTransport) -> np.ndarray:
        rule = EASGD(0.3, elastic)
        team.start_from(vector(99, SIZE) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank, SIZE)
        team.exchange_at_master(rule)
        return team.center.copy()

    rule = EASGD(0.3, elastic)
    plain = across(work, rule, of_node=1, size=SIZE, at_master=True)
    written = across_by("top_k", 2, 1)(work, rule, at_master=True)
    assert all(same_bits(one, plain[0]) for one in written)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", FORMATS)
def test_local_that_is_not_finite_spoils_every_replica(name: str) -> None:
    def work(team: CrossNodeTransport) -> np.ndarray:
        rule = EASGD(0.2, elastic)
        team.start_from(vector(99, SIZE) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = np.nan if team.rank == 3 else vector(team.rank, SIZE)
        team.exchange(rule)
        return team.center.copy()

    for center in across_by(name, 2, 2)(work, EASGD(0.2, elastic)):
        assert np.isnan(center).any()
