"""First values have the distribution asked for, and come from the seed alone."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from knltrain.network import initial_values
from knltrain.network.initial_values import draw
from knltrain.network.layers import Initial


def _drawn(initial: Initial, size: int, seed: int = 1) -> np.ndarray:
    out = np.full(size, 9, np.float32)
    draw(initial, np.random.Philox(seed), out)
    return out


def test_constant_takes_nothing_from_the_stream() -> None:
    stream, out = np.random.Philox(1), np.zeros(3, np.float32)
    draw(Initial("constant", 0.5), stream, out)
    assert out.tolist() == [0.5, 0.5, 0.5]
    assert stream.random_raw() == np.random.Philox(1).random_raw()


def test_uniform_values_fill_their_range_evenly() -> None:
    values = _drawn(Initial("uniform", 2.0), 100_000)
    counts, _ = np.histogram(values, bins=10, range=(-2, 2))
    assert counts.sum() == values.size
    assert abs(counts - 10_000).max() < 5 * math.sqrt(10_000)


def test_normal_values_have_the_quantiles_of_the_normal_distribution() -> None:
    values = _drawn(Initial("normal", 0.01), 100_001)
    for quantile, expected in (
        (0.5, 0.0),
        (0.8413447, 0.01),
        (0.9772499, 0.02),
        (0.0013499, -0.03),
    ):
        below = np.count_nonzero(values < expected)
        spread = 5 * math.sqrt(values.size * quantile * (1 - quantile))
        assert abs(below - quantile * values.size) < spread
    assert np.isfinite(values).all()


def test_neighbouring_normal_values_are_not_related() -> None:
    values = _drawn(Initial("normal", 1.0), 100_000)
    for distance in (1, 2):
        related = np.mean(values[distance:] * values[:-distance])
        assert abs(related) < 5 / math.sqrt(values.size)


def test_normal_values_are_box_and_muller_s_of_the_seed_s_words() -> None:
    words = [int(word) >> 11 for word in np.random.Philox(1).random_raw(6)]
    expected: list[float] = []
    for first, second in ((words[i] / 2**53, words[i + 1] / 2**53) for i in (0, 2, 4)):
        radius, angle = math.sqrt(-2 * math.log(1 - first)), 2 * math.pi * second
        expected += [3 * radius * math.cos(angle), 3 * radius * math.sin(angle)]
    np.testing.assert_allclose(_drawn(Initial("normal", 3.0), 5), expected[:5], rtol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_values_do_not_depend_on_how_many_are_made_at_a_time(
    monkeypatch: pytest.MonkeyPatch, kind: Literal["uniform", "normal"]
) -> None:
    whole = _drawn(Initial(kind, 1.0), 999)
    monkeypatch.setattr(initial_values, "CHUNK", 64)
    np.testing.assert_allclose(_drawn(Initial(kind, 1.0), 999), whole, rtol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_values_change_with_the_seed(kind: Literal["uniform", "normal"]) -> None:
    first, second = (_drawn(Initial(kind, 1.0), 1000, seed) for seed in (1, 2))
    assert np.count_nonzero(first == second) < 5
