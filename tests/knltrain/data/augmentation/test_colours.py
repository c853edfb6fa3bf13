from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.colours import GREY, colour_noise, jittered
from knltrain.data.augmentation.random_words import RandomWords
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
