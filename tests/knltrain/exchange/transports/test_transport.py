"""The contract of transports: one scenario, run by every implementation, with real processes."""

from __future__ import annotations

import ast
import inspect
from typing import Any, get_args

import numpy as np
import pytest

from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.transports.across_nodes import CrossNodeTransport
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.one_sided_center import OneSidedCenter
from knltrain.exchange.transports.team import check_start_values
from knltrain.exchange.transports.transport import (
    CollectiveTransport,
    Order,
    Transport,
    VisitedCenter,
)
from vectorized_ops.reference import elastic

ROUNDING = 2.0**-24
EXCHANGES = 4
SUMS = 6
SIZES = (5, 40_001)
"""Fewer elements than a cache line, so that stripes are empty; stripes of pages, the last odd."""

Found = list[dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def all_found(start_once: Any) -> dict[str, Found]:
    """What every worker of every implementation found, all started at once."""
    loopback = ",".join(f"loopback:{size}" for size in SIZES)
    peers = {"loopback": start_once.start("contract", [], 1, loopback)}
    for workers in (1, 2, 3):
        peers[f"shared-{workers}"] = start_once("contract", workers, SIZES)
    return {name: each.results() for name, each in peers.items()}


@pytest.fixture(params=["loopback", "shared-1", "shared-2", "shared-3"])
def found(all_found: dict[str, Found], request: pytest.FixtureRequest) -> Found:
    return all_found[request.param]


def vector(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32).astype(np.float64)


@pytest.mark.parametrize("size", SIZES)
def test_start_gives_the_values_of_rank_0_to_center_and_every_local(
    found: Found, size: int
) -> None:
    for worker in found:
        assert np.array_equal(worker[f"{size}_start_local"], vector(99, size))
        assert np.array_equal(worker[f"{size}_start_center"], vector(99, size))


@pytest.mark.parametrize("size", SIZES)
def test_elastic_exchanges_equal_their_closed_form(found: Found, size: int) -> None:
    """Zhang's equations (5) and (6) without gradient, iterated: both differences are geometric.

    With m the mean of the locals, m − center shrinks by 1 − α − β in each exchange, local_i − m by
    1 − α, and P m + center stays.
    """
    workers = len(found)
    alpha, beta = 0.9 / workers, 0.9
    locals_ = np.array([vector(rank, size) for rank in range(workers)])
    center = vector(99, size)
    mean, kept = locals_.mean(axis=0), locals_.sum(axis=0) + center
    tolerance = 10 * ROUNDING * (np.abs(locals_).sum(axis=0) + np.abs(center))
    for exchange in range(EXCHANGES):
        gap = (1 - alpha - beta) ** (exchange + 1) * (mean - center)
        mean_now = (kept + gap) / (workers + 1)
        for rank, worker in enumerate(found):
            local_now = mean_now + (1 - alpha) ** (exchange + 1) * (locals_[rank] - mean)
            got_local = worker[f"{size}_elastic{exchange}_local"]
            got_center = worker[f"{size}_elastic{exchange}_center"]
            assert np.all(np.abs(got_local - local_now) <= tolerance)
            assert np.all(np.abs(got_center - (mean_now - gap)) <= tolerance)


@pytest.mark.parametrize("size", SIZES)
def test_elastic_exchange_keeps_locals_plus_center_up_to_rounding(found: Found, size: int) -> None:
    """The bound: one rounding of each result, and P − 1 of the sum of the pulls."""
    workers = len(found)
    locals_ = np.array([vector(rank, size) for rank in range(workers)])
    center = vector(99, size)
    for exchange in range(EXCHANGES):
        new_locals = np.array(
            [worker[f"{size}_elastic{exchange}_local"] for worker in found], np.float64
        )
        new_center = found[0][f"{size}_elastic{exchange}_center"].astype(np.float64)
        change = new_locals.sum(axis=0) + new_center - locals_.sum(axis=0) - center
        pulls = 0.9 / workers * np.abs(locals_ - center).sum(axis=0)
        results = np.abs(new_locals).sum(axis=0) + np.abs(new_center)
        bound = ROUNDING * 1.001 * (results + (workers - 1) * pulls)
        assert np.all(np.abs(change) <= bound)
        locals_, center = new_locals, new_center


@pytest.mark.parametrize("size", SIZES)
def test_average_is_the_mean_of_the_locals(found: Found, size: int) -> None:
    locals_ = np.array([vector(rank, size) for rank in range(len(found))])
    bound = ROUNDING * np.abs(locals_).sum(axis=0)
    error = np.abs(found[0][f"{size}_average_center"] - locals_.mean(axis=0))
    assert np.all(error <= bound)


@pytest.mark.parametrize("size", SIZES)
def test_all_workers_see_one_center_and_averaged_replicas_are_bit_equal(
    found: Found, size: int
) -> None:
    for worker in found:
        for name in [f"elastic{exchange}" for exchange in range(EXCHANGES)] + ["average"]:
            key = f"{size}_{name}_center"
            assert np.array_equal(worker[key].view(np.int32), found[0][key].view(np.int32))
        assert np.array_equal(worker[f"{size}_average_local"], worker[f"{size}_average_center"])


@pytest.mark.parametrize("size", SIZES)
def test_sums_run_in_rank_order_in_float64(found: Found, size: int) -> None:
    workers = len(found)
    large = 10.0**16
    for _ in range(workers - 1):
        large += 1.0
    tenths = 0.0
    for rank in range(workers):
        tenths += 0.1 * rank
    for worker in found:
        for turn in range(SUMS):
            expected = [workers * (turn + 1), large, tenths]
            assert worker[f"{size}_sum{turn}"].tolist() == expected


@pytest.mark.parametrize("size", SIZES)
def test_sums_of_many_numbers_are_those_of_few(found: Found, size: int) -> None:
    factor = sum(range(1, len(found) + 1))
    for worker in found:
        assert worker[f"{size}_many"].tolist() == [factor * number for number in range(20)]


def test_start_values_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"float32 of shape \(3,\), expected float32 of \(4,\)"):
        check_start_values(np.zeros(3, np.float32), 4)


def test_start_without_values_of_rank_0_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 0 must give"):
        check_start_values(None, 4)


KINDS = {
    Loopback: {CollectiveTransport, VisitedCenter},
    NodeShared: {CollectiveTransport, VisitedCenter},
    CrossNodeTransport: {CollectiveTransport},
    OneSidedCenter: {VisitedCenter},
}


def only_refuses(method: ast.FunctionDef) -> bool:
    """Whether there is nothing in it but a docstring and a raise."""
    return all(isinstance(one, (ast.Expr, ast.Raise)) for one in method.body) and isinstance(
        method.body[-1], ast.Raise
    )


@pytest.mark.parametrize("transport", KINDS)
def test_workers_meet_or_visit_as_a_transport_says(transport: type[Transport]) -> None:
    kinds = {kind for kind in (CollectiveTransport, VisitedCenter) if issubclass(transport, kind)}
    assert kinds == KINDS[transport]


@pytest.mark.parametrize("transport", KINDS)
def test_no_method_is_there_to_refuse_alone(transport: type[Transport]) -> None:
    (definition,) = ast.parse(inspect.getsource(transport)).body
    assert isinstance(definition, ast.ClassDef)
    methods = [one for one in definition.body if isinstance(one, ast.FunctionDef)]
    assert not [one.name for one in methods if only_refuses(one)]


@pytest.mark.parametrize("order", get_args(Order))
def test_visit_is_an_exchange_of_one_worker_in_any_order(order: Order) -> None:
    center: VisitedCenter = Loopback(3)
    center.start_from(np.zeros(3, np.float32))
    center.local[:] = 4
    center.await_turn()
    center.visit(EASGD(0.25, elastic), np.zeros(3, np.float32), order)
    center.read_center()
    assert (center.local.tolist(), center.center.tolist()) == ([3.0] * 3, [1.0] * 3)
    center.close()
