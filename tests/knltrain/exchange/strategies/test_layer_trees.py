"""Workers whose layers go along trees, as threads on a memory that does only what it promises."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from masters import BY_LAYER, OF_ALL, PARTS, STEPS
from quadratics import NETWORK, SIZE, start, target, train

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import PeerLost
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.strategies.layer_trees import LayerTreeStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import MasterStep, strategy_in
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.network.layer_slices import layer_sizes
from knltrain.timeline import Timeline
from vectorized_ops.reference.elastic import synchronous_average


def along_trees(workers: int, *branches: int | None) -> Method:
    rule = GradientMean(workers, synchronous_average)
    trees = branches or (None, None)
    assert len(trees) == 2
    layers = layer_sizes(NETWORK)
    return Method("caffegpi", rule, LayerTreeStrategy, layers=layers, branches=trees)


def trained(
    in_threads: Any, workers: int, step_of_all: MasterStep = BY_LAYER, *branches: int | None
) -> list[tuple[np.ndarray, float]]:
    """After each step the weights of all workers, (steps, P, n), and what went on beside."""
    ranks = thread_ranks(workers, seed=workers)

    def work(inside: NodeShared) -> tuple[np.ndarray, float]:
        space = AddressSpace(ranks[inside.rank], timeout_seconds=20)
        part = strategy_in(
            along_trees(workers, *branches), JobTeam(inside, space, None, 20), step_of_all
        )
        part.gradient[:] = part.parameters[:] = inside.rank
        part.exchange(0)  # as a rehearsal does, of which nothing must be left
        found = np.zeros((STEPS, SIZE), np.float32)
        try:
            part.start_from(start())
            for step in range(STEPS):
                part.step_begins(step)
                assert part.model is part.parameters
                gradient = part.parameters - target(inside.rank)
                for layer in reversed(PARTS):
                    part.gradient[layer] = gradient[layer]
                    part.gradient_done_from(layer.start)
                part.gradient_ready(step)
                part.stepped(step)
                if step == STEPS - 1 or step % 2:
                    part.settle()
                    found[step] = part.model
                    time.sleep(0.02)  # as long as a step's computing, in which the thread ends
            part.settle()
            part.team.barrier()
            return found, part.team.clocks.beside.seconds
        finally:
            part.close()
            assert part.parameters.size == 0

    return in_threads(16, workers, work)  # type: ignore[no-any-return]


@pytest.mark.parametrize("step_of_all", [BY_LAYER, OF_ALL], ids=["by layer", "of all"])
def test_two_workers_have_the_bits_of_sync_sgd(in_threads: Any, step_of_all: MasterStep) -> None:
    expected = train("sync_sgd", 2, STEPS)
    for found, beside_seconds in trained(in_threads, 2, step_of_all):
        for step in (1, 3, 5):
            assert np.array_equal(found[step], expected.models[step])
        assert beside_seconds > 0


@pytest.mark.parametrize(
    ("workers", "step_of_all"),
    [(3, BY_LAYER), (5, BY_LAYER), (4, OF_ALL)],
    ids=["3", "5", "of all"],
)
def test_more_have_one_model_which_is_that_of_sync_sgd_up_to_the_order_of_sums(
    in_threads: Any, workers: int, step_of_all: MasterStep
) -> None:
    expected = train("sync_sgd", workers, STEPS)
    (first, _), *others = trained(in_threads, workers, step_of_all)
    for step in (1, 3, 5):
        np.testing.assert_allclose(first[step], expected.models[step], rtol=1e-5, atol=1e-6)
    for found, _ in others:
        assert np.array_equal(found, first)


@pytest.mark.parametrize("branches", [(1, 1), (3, None), (2, 4)], ids=str)
def test_trees_of_other_branches_only_change_the_order_of_sums(
    in_threads: Any, branches: tuple[int, int | None]
) -> None:
    expected = train("sync_sgd", 4, STEPS)
    (first, _), *others = trained(in_threads, 4, BY_LAYER, *branches)
    for step in (1, 3, 5):
        np.testing.assert_allclose(first[step], expected.models[step], rtol=1e-5, atol=1e-6)
    for found, _ in others:
        assert np.array_equal(found, first)


def test_each_layer_is_marked_when_it_is_sent_and_when_its_weights_have_come() -> None:
    part = strategy_in(along_trees(1), JobTeam.of_one(), BY_LAYER)
    sent, came = Timeline(64), Timeline(64)
    part.start_from(start())
    part.observe(sent, came)
    for step in range(2):
        part.step_begins(step)
        part.gradient[:] = part.parameters - target(0)
        part.gradient_ready(step)
        part.settle()
        given, ends, numbers = sent.take(), np.zeros(len(PARTS)), list[int]()
        while not (ends[-len(PARTS) :] > given.ends).all():  # the last comes right behind the wait
            arrived = came.take()
            numbers += arrived.numbers.tolist()
            ends = np.append(ends, arrived.ends)
        assert given.numbers.tolist() == numbers[-len(PARTS) :] == list(range(len(PARTS)))
    assert list(part.exchanged_parts) == list(PARTS[::-1])
    part.close()


def test_one_worker_alone_trains_as_well() -> None:
    part = strategy_in(along_trees(1), JobTeam.of_one(), BY_LAYER)
    expected = train("sync_sgd", 1, 2)
    part.start_from(start())
    for step in range(2):
        part.step_begins(step)
        part.gradient[:] = part.parameters - target(0)
        part.gradient_ready(step)
    part.settle()
    assert np.array_equal(part.model, expected.models[1])
    part.close()


def test_who_waits_for_weights_hears_that_the_run_is_aborted(in_threads: Any) -> None:
    ranks = thread_ranks(2)

    def work(inside: NodeShared) -> None:
        space = AddressSpace(ranks[inside.rank], timeout_seconds=60)
        part = strategy_in(along_trees(2), JobTeam(inside, space, None, 60), BY_LAYER)
        try:
            part.start_from(start())
            part.team.barrier()
            part.step_begins(0)
            if inside.rank:
                inside._segment.abort(1)
                return
            part.gradient_ready(0)
            with pytest.raises(PeerLost, match="another worker failed"):
                part.settle()
        finally:
            part.close()

    in_threads(16, 2, work)
