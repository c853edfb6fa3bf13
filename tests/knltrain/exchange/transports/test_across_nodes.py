"""Workers of several nodes come to what those of one node come to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.communication.internode.collective import NodeCollective
from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import GradientSum, ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.outer_step import OuterStep, gradient_descent
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.across_nodes import CrossNodeTransport
from knltrain.exchange.transports.joining import join_across_nodes
from vectorized_ops.reference import elastic, outer_step

from ..thread_nodes import NODES, OF_NODE, ThreadCollective, across, vector

SIZE = 70_001
WORKERS = NODES * OF_NODE
RULES: dict[str, Callable[[], SynchronousRule]] = {
    "elastic": lambda: EASGD(0.9 / WORKERS, elastic),
    "mean": lambda: ModelAveraging(WORKERS, elastic.synchronous_average),
    "sum": lambda: GradientSum(WORKERS, elastic.synchronous_sum),
    "outer": lambda: OuterStep(
        WORKERS, gradient_descent(0.7, 0.9, True), outer_step.synchronous_outer_step
    ),
}


def on_one_node(rule: SynchronousRule, exchanges: int, part: slice) -> tuple[Any, Any]:
    """The locals and the center after so many exchanges, by the rule's own one pass."""
    locals_ = np.stack([vector(rank, SIZE) for rank in range(WORKERS)])
    center = vector(99, SIZE)
    kept = np.zeros((rule.center_vectors - 1, SIZE), np.float32)
    for step in range(exchanges):
        rule.prepare(step)
        rule.synchronise(locals_[:, part], center[part], kept[:, part])
    return locals_, center


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("part", [slice(None), slice(17, 4_000)])
def test_exchange_does_what_one_of_all_on_one_node_does(name: str, part: slice) -> None:
    rule = RULES[name]()

    def work(team: CrossNodeTransport) -> tuple[np.ndarray, np.ndarray]:
        team.start_from(vector(99, SIZE) if team.rank == 0 else None)
        assert np.array_equal(team.local, vector(99, SIZE))
        team.barrier()
        team.local[:] = vector(team.rank, SIZE)
        for step in range(3):
            rule.prepare(step)
            team.exchange(rule, part)
        return team.local.copy(), team.center.copy()

    found = across(work, rule)
    locals_, center = on_one_node(RULES[name](), 3, part)
    for rank, (local, own_center) in enumerate(found):
        np.testing.assert_allclose(local, locals_[rank], rtol=1e-5, atol=2e-5)
        np.testing.assert_allclose(own_center, center, rtol=1e-5, atol=2e-5)
        assert np.array_equal(own_center.view(np.int32), found[0][1].view(np.int32))


def test_exchange_of_spares_leaves_the_locals_and_comes_to_the_same_bits() -> None:
    def work(team: CrossNodeTransport) -> tuple[np.ndarray, np.ndarray]:
        rule = RULES["elastic"]()
        team.start_from(vector(99, SIZE) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank, SIZE)
        if not team.spare.size:
            team.exchange(rule)
            return team.local.copy(), team.center.copy()
        team.exchange_beside(rule)
        assert np.array_equal(team.local, vector(team.rank, SIZE))
        team.swap()
        return team.local.copy(), team.center.copy()

    plain, beside = (
        across(work, RULES["elastic"]()),
        across(work, RULES["elastic"](), at_master=True),
    )
    for one, other in zip(plain, beside, strict=True):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])


@pytest.mark.parametrize("of_node", [1, 3])
def test_master_moves_the_center_for_all(of_node: int) -> None:
    def work(team: CrossNodeTransport) -> tuple[np.ndarray, np.ndarray]:
        rule = EASGD(0.1, elastic)
        team.start_from(vector(99, SIZE) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank, SIZE)
        team.exchange_at_master(rule)
        return team.local.copy(), team.center.copy()

    found = across(work, RULES["elastic"](), of_node=of_node, at_master=True)
    locals_ = np.stack([vector(rank, SIZE) for rank in range(NODES * of_node)])
    center = vector(99, SIZE)
    EASGD(0.1, elastic).synchronise(locals_, center, np.zeros((0, SIZE), np.float32))
    for rank, (local, own_center) in enumerate(found):
        np.testing.assert_allclose(local, locals_[rank], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(own_center, center, rtol=1e-5, atol=1e-5)
        assert np.array_equal(own_center, found[0][1])


@pytest.mark.parametrize("size", [1, 5, 16_384])
def test_vectors_of_any_length_are_exchanged(size: int) -> None:
    def work(team: CrossNodeTransport) -> np.ndarray:
        team.start_from(vector(99, size) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank, size)
        team.exchange(RULES["mean"]())
        return team.local.copy()

    mean = np.mean([vector(rank, size) for rank in range(WORKERS)], axis=0)
    for local in across(work, RULES["elastic"](), size=size):
        np.testing.assert_allclose(local, mean, atol=1e-5)


def test_sums_and_progress_are_those_of_all_workers() -> None:
    def work(team: CrossNodeTransport) -> tuple[list[float], list[int], tuple[int, int]]:
        team.barrier()
        total = team.all_sum(np.array([1.0, team.rank]))
        counted = team.progress(10 * team.rank)
        team.check()
        return total.tolist(), counted.tolist(), (team.rank, team.workers)

    for rank, (total, counted, who) in enumerate(across(work, RULES["elastic"]())):
        assert total == [6.0, 15.0]
        assert counted == [0, 10, 20, 30, 40, 50]
        assert who == (rank, 6)


def test_the_first_worker_of_each_node_finds_the_rate_of_its_link() -> None:
    """By the bytes that a node sends to two others, and the time of a gather."""
    given: list[int] = []

    def work(team: CrossNodeTransport) -> tuple[float | None, float]:
        team.barrier()
        begin = time.perf_counter()
        rate = team.link_rate(160)
        return rate, 160 / (time.perf_counter() - begin)

    class Noted(ThreadCollective):
        def gather(self, values: np.ndarray, timeout_seconds: float | None = None) -> np.ndarray:
            given.append(values.nbytes)
            time.sleep(0.05)
            return super().gather(values)

    def noted(collective: NodeCollective) -> NodeCollective:
        assert isinstance(collective, ThreadCollective)
        collective.__class__ = Noted
        return collective

    found = across(work, RULES["elastic"](), nodes=3, of_node=2, written=noted)
    assert [rate is None for rate, _ in found] == [False, True] * 3
    for rate, least in found[::2]:
        assert rate is not None
        assert least < rate <= 160 / 0.05
    assert given.count(80) == 3


def test_more_workers_than_one_sum_takes_are_counted() -> None:
    found = across(lambda team: team.progress(team.rank).tolist(), RULES["elastic"](), of_node=9)
    assert found == [list(range(18))] * 18


def test_worker_that_comes_alone_is_refused() -> None:
    def work(team: CrossNodeTransport) -> None:
        rule = RULES["elastic"]()
        for order in ("first_come", "round_robin", "lock_free"):
            method = Method("alone", rule, AsynchronousStrategy, schedule=order, after="step")
            with pytest.raises(ConfigError, match="expected a method whose workers exchange all"):
                strategy_in(method, team)

    across(work, RULES["elastic"]())


def test_collective_belongs_to_the_first_worker_alone() -> None:
    memory = NodeMemory(10, 2, Method("any", RULES["elastic"](), SynchronousStrategy), "memfd", 2)
    with pytest.raises(ValueError, match="rank 0: expected a collective at the first worker"):
        join_across_nodes([os.dup(fd) for fd in memory.fds_of(0)], 0, 20, 0, 2, None)
    memory.close()
