from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation import normalisation as module
from knltrain.data.augmentation.normalisation import mean_and_deviation, normalisation_of
from knltrain.data.source import ArraySource
from knltrain.errors import ConfigError, DataError
from tests.knltrain.data.given import source_of


@pytest.fixture
def source() -> ArraySource:
    pixels = np.random.default_rng(3).integers(0, 256, (20, 4, 5, 3), np.uint8)
    return source_of(pixels, np.arange(20))


def test_training_pictures_get_mean_0_and_deviation_1(source: ArraySource) -> None:
    found = normalisation_of(source, "training", "training")
    images = (source.pixels.astype(np.float32) - found.mean) * found.scale
    assert images.mean(dtype=np.float64) == pytest.approx(0, abs=1e-6)
    assert images.std(dtype=np.float64) == pytest.approx(1, abs=1e-6)
    assert len(set(found.mean.tolist())) == 1  # one for all channels


@pytest.mark.parametrize("limit", [("MOST_MEASURED", 5), ("MOST_VALUES", 5 * 60)])
def test_of_many_pictures_some_are_measured(
    source: ArraySource, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, int]
) -> None:
    monkeypatch.setattr(module, *limit)
    every_fourth = source.pixels[::4].astype(np.float64)
    expected = every_fourth.mean(), every_fourth.std()
    assert mean_and_deviation(source) == pytest.approx(expected)


def test_numbers_are_those_of_the_networks_channels(source: ArraySource) -> None:
    given = normalisation_of(source, (1.0, 2.0, 3.0), 256.0, reverses=True)
    assert given.mean.tolist() == [1, 2, 3]
    assert given.scale.tolist() == [0.00390625] * 3
    known = normalisation_of(source, "imagenet", "imagenet")
    backwards = normalisation_of(source, "imagenet", "imagenet", reverses=True)
    assert known.mean == pytest.approx([123.675, 116.28, 103.53])
    assert 1 / known.scale == pytest.approx([58.395, 57.12, 57.375])
    assert np.array_equal(backwards.mean, known.mean[::-1])


def test_what_does_not_fit_the_pictures_is_refused(source: ArraySource) -> None:
    with pytest.raises(ConfigError, match=r"data\.mean = \[1\.0, 2\.0\]: expected 3 numbers"):
        normalisation_of(source, (1.0, 2.0), "training")
    grey = source_of(source.pixels[..., :1], np.arange(20))
    with pytest.raises(ConfigError, match=r"data\.deviation = 'imagenet': the pictures have 1"):
        normalisation_of(grey, 0.0, "imagenet")
    with pytest.raises(DataError, match=r"data\.mean_file has 1 channels, the pictures have 3"):
        normalisation_of(source, "training", 1.0, np.zeros((4, 5, 1), np.float32))
    for mean in (1e300, -1e300):
        with pytest.raises(ConfigError, match=r"data\.mean = \[-?1e\+300, .*of 0 to 255"):
            normalisation_of(source, mean, 1.0)
    for deviation in (1e-45, 1e-300, 1e300):  # of which 1 / them is infinite or 0 in float32
        with pytest.raises(ConfigError, match=r"data\.deviation = \[1e.*of 0 to 255"):
            normalisation_of(source, 0.0, (1.0, 1.0, deviation)[::-1])
    constant = source_of(np.full((2, 3, 3, 1), 7, np.uint8), np.arange(2))
    with pytest.raises(DataError, match=r"all pixels of the training images are 7\.0"):
        normalisation_of(constant, "training", 1.0)
