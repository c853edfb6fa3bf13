"""What exchanges compute with on a device is what NumPy computes, and stays there."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import FloatArray
from vectorized_ops.reference import elastic as kernels


def drawn() -> list[FloatArray]:
    draws = np.random.default_rng(1)
    return [draws.standard_normal(100, dtype=np.float32) for _ in range(3)]


def rules() -> list[SynchronousRule]:
    return [
        EASGD(0.45, kernels),
        GradientMean(3, kernels.synchronous_average),
        ModelAveraging(3, kernels.synchronous_model_average),
    ]


@pytest.mark.parametrize("number", range(len(rules())))
def test_rules_have_the_same_bits_there(number: int) -> None:
    here, there, mirrors = drawn(), drawn(), Mirrors(HOST, are_apart=True)
    nothing = np.zeros((0, 100), np.float32)
    mirrors.follow(*there)
    rule, moved = rules()[number], rules()[number]
    arithmetic = mirrors.arithmetic
    assert arithmetic is not None
    moved.compute_on(arithmetic)
    before = [each.copy() for each in there]
    for each, (local, center, contribution) in ((rule, here), (moved, there)):
        each.contribute(local, center, contribution)
        each.arithmetic.add(contribution, contribution, out=contribution)
        each.absorb(center, nothing, contribution)
        each.follow(local, center, contribution)
    for unchanged, values in zip(before, there, strict=True):
        np.testing.assert_array_equal(values, unchanged)  # the host's has not been touched
    mirrors.to_host(*there)
    for expected, found in zip(here, there, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_host_needs_none() -> None:
    assert Mirrors().arithmetic is None
