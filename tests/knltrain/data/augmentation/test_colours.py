from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.colours import (
    _DEVIATIONS,
    _DIRECTIONS,
    GREY,
    NOISE,
    _product,
    colour_noise,
    jittered,
)
from knltrain.data.augmentation.random_words import NORMAL_WORDS, RandomWords, normal
from knltrain.data.preprocessing import Draws

RANDOM = RandomWords(Draws(4, 2), np.arange(2000))


def test_no_strength_changes_nothing() -> None:
    matrix, of_mean = jittered(RANDOM, 0.0, 3)
    assert np.allclose(matrix, np.eye(3))
    assert np.allclose(of_mean, 0)


def test_colours_are_changed_by_the_three_operations_in_all_orders() -> None:
    """The mean pixel knows saturation and brightness, but not contrast."""
    matrix, of_mean = jittered(RANDOM, 0.4, 3)
    mean_changes = matrix + of_mean
    brightness = mean_changes.sum(axis=2)[:, 0]  # of a grey picture
    contrast = matrix.sum(axis=2)[:, 0] / brightness
    for factors in (brightness, contrast):
        assert 0.6 <= factors.min() < 0.62
        assert 1.38 < factors.max() <= 1.4
    red = np.array([1.0, 0, 0])
    spread = mean_changes @ red - (mean_changes @ red @ GREY)[:, None]
    saturation = spread[:, 0] / (1 - GREY[0]) / brightness / contrast
    assert 0.6 <= saturation.min() < 0.62
    assert 1.38 < saturation.max() <= 1.4


def test_one_channel_has_no_saturation() -> None:
    matrix, of_mean = jittered(RANDOM, 0.4, 1)
    assert matrix.shape == of_mean.shape == (2000, 1, 1)
    assert 0.36 <= matrix.min() < matrix.max() <= 1.96


def test_contrast_leaves_the_mean_grey_as_it_is() -> None:
    matrix, of_mean = jittered(RANDOM, 0.9, 3)
    grey = np.full(3, 100.0)
    assert ((matrix + of_mean) @ grey).min() >= 9.9


def test_noise_has_the_deviations_of_imagenets_colours() -> None:
    noise = colour_noise(RANDOM, 0.1)
    first = noise @ np.array([-0.5675, -0.5808, -0.5836])
    assert first.std() == pytest.approx(25.5 * 0.2175, rel=0.06)
    assert noise.mean(axis=0) == pytest.approx([0, 0, 0], abs=0.3)
    assert np.abs(noise).max() < 25


def test_noise_is_summed_in_one_order_on_all_processors() -> None:
    """In Python's numbers, which no library sums in another order or without rounding."""
    words = RANDOM.words(NOISE, 3 * NORMAL_WORDS).reshape(-1, 3, NORMAL_WORDS)
    found = colour_noise(RANDOM, 0.1).tolist()
    for i in range(len(RANDOM)):
        weights = (0.1 * _DEVIATIONS * [normal(words[i : i + 1, c])[0] for c in range(3)]).tolist()
        for channel, (a, b, c) in enumerate(_DIRECTIONS.tolist()):
            assert found[i][channel] == weights[0] * a + weights[1] * b + weights[2] * c


def test_jitter_is_summed_in_one_order_on_all_processors() -> None:
    left, right = np.random.default_rng(1).normal(size=(2, 500, 3, 3))
    found = _product(left, right)
    for one, other, product in zip(left.tolist(), right.tolist(), found.tolist(), strict=True):
        for row, values in zip(one, product, strict=True):
            for c in range(3):
                total = row[0] * other[0][c] + row[1] * other[1][c] + row[2] * other[2][c]
                assert values[c] == total
