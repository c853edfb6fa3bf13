"""The contract of exchange rules, which every rule keeps with every kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from knltrain.assembly.factories import Kernels, numba_kernels, reference_kernels
from knltrain.exchange.rules.averaged_center import AveragedCenter
from knltrain.exchange.rules.averaging import GradientSum, ModelAveraging
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.outer_step import OuterStep, gradient_descent, slow_momentum
from knltrain.exchange.rules.rule import (
    ExchangeRule,
    SynchronousRule,
    downpour_doubts,
    elastic_doubts,
)
from vectorized_ops.reference import elastic
from vectorized_ops.reference.outer_step import synchronous_outer_step

ROUNDING = 2.0**-24
SIZE = 2000


@pytest.fixture(params=[1, 2, 3, 5])
def workers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[reference_kernels, numba_kernels], ids=["reference", "numba"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    made: Kernels = request.param()
    return made


SYNCHRONOUS: dict[str, Callable[[Kernels, int], SynchronousRule]] = {
    "elastic": lambda kernels, workers: EASGD(0.9 / workers, kernels.elastic),
    "averaging": lambda kernels, workers: ModelAveraging(
        workers, kernels.elastic.synchronous_model_average
    ),
    "sum": lambda kernels, workers: GradientSum(workers, kernels.elastic.synchronous_sum),
    "nesterov outer step": lambda kernels, workers: OuterStep(
        workers, gradient_descent(0.7, 0.9, True), kernels.outer_step
    ),
    "slow momentum": lambda kernels, workers: OuterStep(
        workers, slow_momentum(1.0, 0.5, lambda _: 0.2), kernels.outer_step
    ),
}
RULES: dict[str, Callable[[Kernels, int], ExchangeRule]] = {
    **SYNCHRONOUS,
    "downpour": lambda kernels, workers: Downpour(kernels.downpour),
    "heavy downpour": lambda kernels, workers: Downpour(kernels.downpour, 0.7),
    "nesterov downpour": lambda kernels, workers: Downpour(kernels.downpour, 0.7, True),
    "averaged downpour": lambda kernels, workers: AveragedCenter(
        Downpour(kernels.downpour), None, kernels.averages
    ),
    "moving average": lambda kernels, workers: AveragedCenter(
        Downpour(kernels.downpour, 0.7), 0.1, kernels.averages
    ),
}


@pytest.fixture(params=SYNCHRONOUS)
def rule(workers: int, kernels: Kernels, request: pytest.FixtureRequest) -> SynchronousRule:
    return SYNCHRONOUS[request.param](kernels, workers)


@pytest.fixture(params=RULES)
def any_rule(workers: int, kernels: Kernels, request: pytest.FixtureRequest) -> ExchangeRule:
    return RULES[request.param](kernels, workers)


def kept_by(rule: ExchangeRule) -> np.ndarray:
    return np.zeros((rule.center_vectors - 1, SIZE), np.float32)


def random_vectors(workers: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(workers)
    return rng.standard_normal((workers, SIZE), np.float32), rng.standard_normal(SIZE, np.float32)


def exchange_by_verbs(
    rule: SynchronousRule, locals_: np.ndarray, center: np.ndarray, kept: np.ndarray
) -> None:
    contributions = np.empty_like(locals_)
    for local, out in zip(locals_, contributions, strict=True):
        rule.contribute(local, center, out)
    total = np.zeros_like(center)
    for contribution in contributions:
        total += contribution
    rule.absorb(center, kept, total)
    for local, contribution in zip(locals_, contributions, strict=True):
        rule.follow(local, center, contribution)


def test_synchronise_equals_the_three_verbs(rule: SynchronousRule, workers: int) -> None:
    locals_, center = random_vectors(workers)
    scale = np.abs(locals_).sum(axis=0, dtype=np.float64) + workers * np.abs(center)
    by_verbs, center_by_verbs = locals_.copy(), center.copy()
    kept = kept_by(rule) + np.float32(0.3)
    kept_by_verbs = kept.copy()
    rule.synchronise(locals_, center, kept)
    exchange_by_verbs(rule, by_verbs, center_by_verbs, kept_by_verbs)
    if isinstance(rule, EASGD):
        scale[:] = 0  # The same operations in the same order: the same bits.
    bound = 8 * ROUNDING * scale
    assert np.all(np.abs(center.astype(np.float64) - center_by_verbs) <= bound)
    assert np.all(np.abs(locals_.astype(np.float64) - by_verbs) <= bound)


@pytest.mark.parametrize("workers", [*range(1, 10), 13])
def test_values_that_are_equal_everywhere_stay(rule: SynchronousRule, workers: int) -> None:
    """As those of frozen parameters; a plain mean of them has a rounding error."""
    if isinstance(rule, GradientSum):
        pytest.skip("a sum of gradients, which may be anything where parameters are frozen")
    frozen = np.random.default_rng(1).standard_normal(SIZE, np.float32)
    for exchange in (rule.synchronise, partial(exchange_by_verbs, rule)):
        locals_, center = np.tile(frozen, (workers, 1)), frozen.copy()
        kept = kept_by(rule)
        for _ in range(2):
            exchange(locals_, center, kept)
        assert np.array_equal(center, frozen)
        assert all(np.array_equal(local, frozen) for local in locals_)


def test_exchange_by_stripes_equals_the_whole_to_the_last_bit(
    rule: SynchronousRule, workers: int
) -> None:
    locals_, center = random_vectors(workers)
    whole, whole_center = locals_.copy(), center.copy()
    whole_kept, kept = kept_by(rule), kept_by(rule)
    rule.synchronise(whole, whole_center, whole_kept)
    for begin, end in [(1040, SIZE), (0, 7), (7, 7), (7, 1040)]:
        rule.synchronise(locals_[:, begin:end], center[begin:end], kept[:, begin:end])
    assert np.array_equal(locals_, whole)
    assert np.array_equal(center, whole_center)
    assert np.array_equal(kept, whole_kept)


def visited(
    rule: ExchangeRule, visit: Callable[..., None], pieces: list[tuple[int, int]]
) -> list[np.ndarray]:
    """Local, center, kept and contribution after three visits, the local moving in between."""
    rng = np.random.default_rng(11)
    local, center, step = rng.standard_normal((3, SIZE), np.float32)
    kept = kept_by(rule)
    contribution = np.zeros(SIZE, np.float32)
    rule.found(center, kept)
    rule.begin(center, contribution)
    for _ in range(3):
        local -= step
        for begin, end in pieces:
            part = slice(begin, end)
            visit(rule, local[part], center[part], kept[:, part], contribution[part])
    return [local, center, *kept]


def by_verbs(
    rule: ExchangeRule,
    local: np.ndarray,
    center: np.ndarray,
    kept: np.ndarray,
    contribution: np.ndarray,
) -> None:
    rule.contribute(local, center, contribution)
    rule.absorb(center, kept, contribution)
    rule.follow(local, center, contribution)


def by_visit(rule: ExchangeRule, *vectors: np.ndarray) -> None:
    rule.visit(*vectors)


def test_visit_equals_the_three_verbs_to_the_last_bit(any_rule: ExchangeRule) -> None:
    whole = [(0, SIZE)]
    expected = visited(any_rule, by_verbs, whole)
    for got, wanted in zip(visited(any_rule, by_visit, whole), expected, strict=True):
        assert np.array_equal(got.view(np.int32), wanted.view(np.int32))


def test_visit_by_pieces_equals_the_whole_to_the_last_bit(any_rule: ExchangeRule) -> None:
    expected = visited(any_rule, by_visit, [(0, SIZE)])
    pieces = [(1040, SIZE), (0, 7), (7, 7), (7, 1040)]
    for got, wanted in zip(visited(any_rule, by_visit, pieces), expected, strict=True):
        assert np.array_equal(got.view(np.int32), wanted.view(np.int32))


def grows(moving_rate: float, learning_rate: float, workers: int = 3) -> bool:
    """Whether workers that take turns on x²/2 leave its minimum; gradient and pull at one x."""
    locals_, center = [np.ones(1, np.float32) for _ in range(workers)], np.zeros(1, np.float32)
    rule, kept = EASGD(moving_rate, elastic), np.zeros((0, 1), np.float32)
    for step in range(400):
        local = locals_[step % workers]
        gradient = local.copy()
        rule.visit(local, center, kept, np.zeros(1, np.float32))
        local -= np.float32(learning_rate) * gradient
    return bool(max(float(np.abs(local[0])) for local in locals_) > 1.0)


@pytest.mark.parametrize("learning_rate", [0.1, 0.5, 1.0, 1.5])
def test_bound_of_taking_turns_is_where_a_quadratic_begins_to_grow(learning_rate: float) -> None:
    bound = (4 - 2 * learning_rate) / (4 - learning_rate)
    assert not grows(0.97 * bound, learning_rate)
    assert 1.03 * bound >= 1 or grows(1.03 * bound, learning_rate)
    assert not any("(4 - 2" in doubt for doubt in elastic_doubts(0.97 * bound, 1, learning_rate))
    assert "(4 - 2 η) / (4 - η) = " in elastic_doubts(1.03 * bound, 1, learning_rate)[0]


@pytest.mark.parametrize("workers", [1, 3, 49, 72])
def test_center_may_move_to_the_mean_but_not_past_it(workers: int) -> None:
    assert elastic_doubts(0.99 / workers, workers, 0.01) == []
    if workers > 1:
        assert elastic_doubts(1 / workers, workers, 0.01) == []
        (doubt,) = elastic_doubts(1.1 / workers, workers, 0.01)
        assert f"past 1 / workers = {1 / workers:.4g}" in doubt


def test_learning_rate_that_is_never_stable_is_doubted() -> None:
    assert elastic_doubts(0.1, 1, 2.5)


def test_downpour_is_doubted_with_long_periods() -> None:
    assert downpour_doubts(4) == []
    assert "easgd" in downpour_doubts(16)[0]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice(None), ["0:4 outer", "4:8 mean", "8:12 outer", "12:16 mean", "16:None outer"]),
        (slice(6, 14), ["6:8 mean", "8:12 outer", "12:14 mean"]),
        (slice(0, 4), ["0:4 outer"]),
        (slice(4, 8), ["4:8 mean"]),
        (slice(12, None), ["12:16 mean", "16:None outer"]),
    ],
)
def test_running_statistics_have_a_rule_of_their_own(part: slice, expected: list[str]) -> None:
    mean = ModelAveraging(2, elastic.synchronous_model_average)
    outer = OuterStep(2, gradient_descent(0.7, 0.9, True), synchronous_outer_step, mean)
    outer.statistics = (slice(4, 8), slice(12, 16))
    names = {id(outer): "outer", id(mean): "mean"}
    pieces = outer.on(part)
    assert [f"{each.start}:{each.stop} {names[id(rule)]}" for rule, each in pieces] == expected
    assert mean.on(part) == ((mean, part),)
