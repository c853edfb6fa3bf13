"""Workers of several nodes come to what those of one node come to."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.across_nodes import AcrossNodes
from knltrain.exchange.averaging import GradientSum, ModelAveraging
from knltrain.exchange.easgd import EASGD
from knltrain.exchange.joining import join_across_nodes
from knltrain.exchange.method import Method
from knltrain.exchange.node_memory import NodeMemory
from knltrain.exchange.outer_step import OuterStep, gradient_descent
from knltrain.exchange.rule import SynchronousRule
from vectorized_ops.reference import elastic, outer_step

from .thread_nodes import ThreadNodes

SIZE = 70_001
NODES, OF_NODE = 2, 3
WORKERS = NODES * OF_NODE
RULES: dict[str, Callable[[], SynchronousRule]] = {
    "elastic": lambda: EASGD(0.9 / WORKERS, elastic),
    "mean": lambda: ModelAveraging(WORKERS, elastic.synchronous_average),
    "sum": lambda: GradientSum(WORKERS, elastic.synchronous_sum),
    "outer": lambda: OuterStep(
        WORKERS, gradient_descent(0.7, 0.9, True), outer_step.synchronous_outer_step
    ),
}


def vector(seed: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def across(
    work: Callable[[AcrossNodes], Any],
    *,
    of_node: int = OF_NODE,
    size: int = SIZE,
    rule: SynchronousRule | None = None,
    at_master: bool = False,
) -> list[Any]:
    rule = rule or RULES["elastic"]()
    method = Method("any", rule, "parameters", at_master=at_master)
    memories = [NodeMemory(size, of_node, method, "memfd", NODES) for _ in range(NODES)]
    between = ThreadNodes(NODES)

    def one(rank: int) -> Any:
        node, local_rank = divmod(rank, of_node)
        fds = [os.dup(fd) for fd in memories[node].fds_of(local_rank)]
        collective = None if local_rank else between.collective(node)
        team = join_across_nodes(fds, local_rank, 20, node, NODES, collective)
        assert isinstance(team, AcrossNodes)
        try:
            return work(team)
        except BaseException:
            between.barrier.abort()
            memories[node].abort(1)
            raise
        finally:
            team.close()

    try:
        with ThreadPoolExecutor(NODES * of_node) as threads:
            found = list(threads.map(one, range(NODES * of_node)))
    finally:
        for memory in memories:
            memory.close()
    assert sorted(between.closed) == list(range(NODES))
    return found


def on_one_node(rule: SynchronousRule, exchanges: int, part: slice) -> tuple[Any, Any]:
    """The locals and the center after so many exchanges, by the rule's own one pass."""
    locals_ = np.stack([vector(rank) for rank in range(WORKERS)])
    center = vector(99)
    kept = np.zeros((rule.center_vectors - 1, SIZE), np.float32)
    for step in range(exchanges):
        rule.prepare(step)
        rule.synchronise(locals_[:, part], center[part], kept[:, part])
    return locals_, center


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("part", [slice(None), slice(17, 4_000)])
def test_exchange_does_what_one_of_all_on_one_node_does(name: str, part: slice) -> None:
    rule = RULES[name]()

    def work(team: AcrossNodes) -> tuple[np.ndarray, np.ndarray]:
        team.start_from(vector(99) if team.rank == 0 else None)
        assert np.array_equal(team.local, vector(99))
        team.barrier()
        team.local[:] = vector(team.rank)
        for step in range(3):
            rule.prepare(step)
            team.exchange(rule, part)
        return team.local.copy(), team.center.copy()

    found = across(work, rule=rule)
    locals_, center = on_one_node(RULES[name](), 3, part)
    for rank, (local, own_center) in enumerate(found):
        np.testing.assert_allclose(local, locals_[rank], rtol=1e-5, atol=2e-5)
        np.testing.assert_allclose(own_center, center, rtol=1e-5, atol=2e-5)
        assert np.array_equal(own_center.view(np.int32), found[0][1].view(np.int32))


def test_exchange_of_spares_leaves_the_locals_and_comes_to_the_same_bits() -> None:
    def work(team: AcrossNodes) -> tuple[np.ndarray, np.ndarray]:
        rule = RULES["elastic"]()
        team.start_from(vector(99) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank)
        if not team.spare.size:
            team.exchange(rule)
            return team.local.copy(), team.center.copy()
        team.exchange_beside(rule)
        assert np.array_equal(team.local, vector(team.rank))
        team.swap()
        return team.local.copy(), team.center.copy()

    plain, beside = across(work), across(work, at_master=True)
    for one, other in zip(plain, beside, strict=True):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])


@pytest.mark.parametrize("of_node", [1, 3])
def test_master_moves_the_center_for_all(of_node: int) -> None:
    def work(team: AcrossNodes) -> tuple[np.ndarray, np.ndarray]:
        rule = EASGD(0.1, elastic)
        team.start_from(vector(99) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank)
        team.exchange_at_master(rule)
        return team.local.copy(), team.center.copy()

    found = across(work, of_node=of_node, at_master=True)
    locals_ = np.stack([vector(rank) for rank in range(NODES * of_node)])
    center = vector(99)
    EASGD(0.1, elastic).synchronise(locals_, center, np.zeros((0, SIZE), np.float32))
    for rank, (local, own_center) in enumerate(found):
        np.testing.assert_allclose(local, locals_[rank], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(own_center, center, rtol=1e-5, atol=1e-5)
        assert np.array_equal(own_center, found[0][1])


@pytest.mark.parametrize("size", [1, 5, 16_384])
def test_vectors_of_any_length_are_exchanged(size: int) -> None:
    def work(team: AcrossNodes) -> np.ndarray:
        team.start_from(vector(99, size) if team.rank == 0 else None)
        team.barrier()
        team.local[:] = vector(team.rank, size)
        team.exchange(RULES["mean"]())
        return team.local.copy()

    mean = np.mean([vector(rank, size) for rank in range(WORKERS)], axis=0)
    for local in across(work, size=size):
        np.testing.assert_allclose(local, mean, atol=1e-5)


def test_sums_and_progress_are_those_of_all_workers() -> None:
    def work(team: AcrossNodes) -> tuple[list[float], list[int], tuple[int, int]]:
        team.barrier()
        total = team.all_sum(np.array([1.0, team.rank]))
        counted = team.progress(10 * team.rank)
        team.check()
        return total.tolist(), counted.tolist(), (team.rank, team.workers)

    for rank, (total, counted, who) in enumerate(across(work)):
        assert total == [6.0, 15.0]
        assert counted == [0, 10, 20, 30, 40, 50]
        assert who == (rank, 6)


def test_more_workers_than_one_sum_takes_are_counted() -> None:
    found = across(lambda team: team.progress(team.rank).tolist(), of_node=9)
    assert found == [list(range(18))] * 18


def test_worker_that_comes_alone_is_refused() -> None:
    def work(team: AcrossNodes) -> None:
        rule = RULES["elastic"]()
        for visit in (
            lambda: team.visit(rule, team.local, "first_come"),
            lambda: team.push(rule, team.local, "lock_free"),
            team.await_turn,
        ):
            with pytest.raises(ConfigError, match="expected a method whose workers exchange all"):
                visit()

    across(work)


def test_collective_belongs_to_the_first_worker_alone() -> None:
    memory = NodeMemory(10, 2, Method("any", RULES["elastic"](), "parameters"), "memfd", 2)
    with pytest.raises(ValueError, match="rank 0: expected a collective at the first worker"):
        join_across_nodes([os.dup(fd) for fd in memory.fds_of(0)], 0, 20, 0, 2, None)
    memory.close()
