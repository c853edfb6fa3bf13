"""Images are enlarged, moved and standardised while they are written."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data import standardising as module
from knltrain.data.enlarging import enlarged
from knltrain.data.preprocessing import Draws
from knltrain.data.source import ArraySource
from knltrain.data.standardising import Standardising, mean_and_deviation
from knltrain.errors import DataError
from knltrain.vectors import FloatArray
from tests.knltrain.data.given import source_of


@pytest.fixture
def source() -> ArraySource:
    pixels = np.random.default_rng(3).integers(0, 256, (20, 4, 5, 3), np.uint8)
    return source_of(pixels, np.arange(20))


def _written(made: Standardising, source: ArraySource, draws: Draws | None = None) -> FloatArray:
    out = np.empty((len(source), *made.image_shape), np.float32)
    made.write(source, np.arange(len(source)), draws, out)
    return out


def test_images_get_mean_0_and_deviation_1(source: ArraySource) -> None:
    images = _written(Standardising((4, 5, 3), *mean_and_deviation(source)), source)
    assert images.mean(dtype=np.float64) == pytest.approx(0, abs=1e-6)
    assert images.std(dtype=np.float64) == pytest.approx(1, abs=1e-6)


def test_of_many_pictures_some_are_measured(
    source: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_MEASURED", 5)
    every_fourth = source.pixels[::4].astype(np.float64)
    expected = every_fourth.mean(), every_fourth.std()
    assert mean_and_deviation(source) == pytest.approx(expected)


def test_images_without_contrast_are_refused() -> None:
    constant = source_of(np.full((2, 3, 3, 1), 7, np.uint8), np.arange(2))
    with pytest.raises(DataError, match=r"all pixels of the training images are 7\.0"):
        mean_and_deviation(constant)


def test_rows_are_those_that_are_asked_for(source: ArraySource) -> None:
    out = np.empty((2, 4, 5, 3), np.float32)
    Standardising((4, 5, 3), 0, 1).write(source, np.array([7, 2]), None, out)
    assert np.array_equal(out, source.pixels[[7, 2]])


def test_images_are_enlarged(source: ArraySource) -> None:
    images = _written(Standardising((4, 5, 3), 0, 1, side=9), source)
    assert np.array_equal(images, enlarged(source.pixels, 9))


def test_images_are_not_made_smaller() -> None:
    with pytest.raises(DataError, match=r"data\.side_pixels = 31: images have 28 x 32"):
        Standardising((28, 32, 1), 0, 1, side=31)


def test_moved_image_is_the_image_moved_by_at_most_the_asked_pixels() -> None:
    pixels = np.zeros((6, 5, 5, 1), np.uint8)
    pixels[:, 2, 2] = 1
    source, made = source_of(pixels, np.arange(6)), Standardising((5, 5, 1), 0, 1, shift_pixels=2)
    places = set()
    for epoch in range(20):
        for image in _written(made, source, Draws(3, epoch))[..., 0]:
            assert np.count_nonzero(image) == 1
            places.add(tuple(np.argwhere(image)[0].tolist()))
    assert places == {(y, x) for y in range(5) for x in range(5)}
    assert np.array_equal(_written(made, source), pixels)  # nothing moves in evaluation


def test_a_picture_moves_alike_whoever_asks_for_it(source: ArraySource) -> None:
    made, draws = Standardising((4, 5, 3), 0, 1, shift_pixels=1), Draws(5, 2)
    every, rows = _written(made, source, draws), np.array([11, 3, 4])
    few = np.empty((3, 4, 5, 3), np.float32)
    made.write(source, rows, draws, few)
    assert np.array_equal(few, every[rows])
