"""The contract of exchange rules, which every rule keeps with every kernel."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import vectorized_ops.numba.elastic as compiled
import vectorized_ops.reference.elastic as reference
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.easgd import EASGD
from knltrain.exchange.rule import ExchangeRule

ROUNDING = 2.0**-24
SIZE = 2000


@pytest.fixture(params=[1, 2, 3, 5])
def workers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[reference, compiled], ids=["reference", "numba"])
def kernels(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture(params=["elastic", "averaging"])
def rule(workers: int, kernels: ModuleType, request: pytest.FixtureRequest) -> ExchangeRule:
    if request.param == "elastic":
        return EASGD(0.9 / workers, workers, kernels.synchronous_elastic_update)
    return ModelAveraging(workers, kernels.synchronous_average)


def random_vectors(workers: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(workers)
    return rng.standard_normal((workers, SIZE), np.float32), rng.standard_normal(SIZE, np.float32)


def exchange_by_verbs(rule: ExchangeRule, locals_: np.ndarray, center: np.ndarray) -> None:
    contributions = np.empty_like(locals_)
    for local, out in zip(locals_, contributions, strict=True):
        rule.contribute(local, center, out)
    total = np.zeros_like(center)
    for contribution in contributions:
        total += contribution
    rule.absorb(center, total)
    for local in locals_:
        rule.follow(local, center)


def test_synchronise_equals_the_three_verbs(rule: ExchangeRule, workers: int) -> None:
    locals_, center = random_vectors(workers)
    scale = np.abs(locals_).sum(axis=0, dtype=np.float64) + workers * np.abs(center)
    by_verbs, center_by_verbs = locals_.copy(), center.copy()
    rule.synchronise(locals_, center)
    exchange_by_verbs(rule, by_verbs, center_by_verbs)
    if isinstance(rule, EASGD):
        scale[:] = 0  # The same operations in the same order: the same bits.
    bound = 4 * ROUNDING * scale
    assert np.all(np.abs(center.astype(np.float64) - center_by_verbs) <= bound)
    assert np.all(np.abs(locals_.astype(np.float64) - by_verbs) <= bound)


def test_exchange_by_stripes_equals_the_whole_to_the_last_bit(
    rule: ExchangeRule, workers: int
) -> None:
    locals_, center = random_vectors(workers)
    whole, whole_center = locals_.copy(), center.copy()
    rule.synchronise(whole, whole_center)
    for begin, end in [(1040, SIZE), (0, 7), (7, 7), (7, 1040)]:
        rule.synchronise(locals_[:, begin:end], center[begin:end])
    assert np.array_equal(locals_, whole)
    assert np.array_equal(center, whole_center)
