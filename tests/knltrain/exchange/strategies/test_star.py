"""A star of workers, as threads that send each other messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from masters import BY_LAYER, OF_ALL, STEPS, trained
from quadratics import NETWORK, train

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.config.exchange_table import ExchangeConfig
from knltrain.errors import ConfigError, ExchangeTimeout, PeerLost
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.star import StarStrategy
from knltrain.exchange.strategies.strategy import MasterStep, strategy_in
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.transports.node_shared import NodeShared
from vectorized_ops.reference.elastic import synchronous_average


def star(workers: int) -> Method:
    rule = GradientMean(workers, synchronous_average)
    return Method(
        "caffe_mpi", rule, StarStrategy, **StarStrategy.own_settings(ExchangeConfig(), NETWORK)
    )


def members(workers: int, timeout_seconds: float, step: MasterStep) -> Any:
    """member(inside): the strategy of a worker of a star."""
    ranks = thread_ranks(workers, seed=workers)

    def member(inside: NodeShared) -> Any:
        space = AddressSpace(ranks[inside.rank], timeout_seconds=timeout_seconds)
        return strategy_in(star(workers), JobTeam(inside, space, None, timeout_seconds), step)

    return member


@pytest.mark.parametrize("step", [BY_LAYER, OF_ALL], ids=["by layer", "of all"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_all_have_the_weights_of_sync_sgd_whoever_sends_first(
    in_threads: Any, workers: int, step: MasterStep
) -> None:
    member = members(workers, 20, step)

    def work(inside: NodeShared) -> np.ndarray:
        part = member(inside)
        try:
            return trained(part, inside.rank)
        finally:
            part.close()

    expected = train("sync_sgd", workers, STEPS).models
    for found in in_threads(16, workers, work):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rank_0_holds_a_gradient_of_each_other() -> None:
    assert StarStrategy.vectors(star(5)) == 4


@pytest.mark.parametrize("aborted", [True, False])
def test_who_waits_for_weights_hears_of_an_abort_and_of_a_master_that_is_late(
    in_threads: Any, aborted: bool
) -> None:
    member = members(2, 30 if aborted else 0.3, BY_LAYER)

    def work(inside: NodeShared) -> None:
        part = member(inside)
        try:
            if inside.rank == 0:
                if aborted:
                    inside._segment.abort(1)
                return
            said = "another worker failed" if aborted else "expected worker 0, the master; if"
            with pytest.raises(PeerLost if aborted else ExchangeTimeout, match=said):
                part.exchange(0)
        finally:
            part.close()

    in_threads(16, 2, work)


def test_a_master_names_those_that_are_late(in_threads: Any) -> None:
    member = members(3, 0.3, BY_LAYER)

    def work(inside: NodeShared) -> None:
        part = member(inside)
        try:
            if inside.rank == 0:
                with pytest.raises(ExchangeTimeout, match="expected worker 1, 2; if a worker can"):
                    part.exchange(0)
        finally:
            part.close()

    in_threads(16, 3, work)


def test_layers_are_not_sent_alone() -> None:
    per_layer = StarStrategy.own_settings(ExchangeConfig(packing="per_layer"), NETWORK)
    with pytest.raises(ConfigError, match=r"expected exchange\.packing = 'packed'"):
        Method("caffe_mpi", GradientMean(2, synchronous_average), StarStrategy, **per_layer)
