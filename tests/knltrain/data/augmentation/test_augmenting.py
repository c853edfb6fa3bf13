from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knltrain.data.augmentation.augmenting import Augmenting
from knltrain.data.augmentation.colours import GREY
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.augmentation.operations import random_operations
from knltrain.data.augmentation.random_words import RandomWords
from knltrain.data.augmentation.recipes import RECIPES, Recipe, recipe_named, ten_crops
from knltrain.data.preprocessing import Draws
from knltrain.data.source import ArraySource
from knltrain.errors import DataError
from knltrain.vectors import FloatArray
from tests.knltrain.data.given import source_of
from vectorized_ops.numba import pictures as numba
from vectorized_ops.numba.picture_operations import operated as compiled_operated
from vectorized_ops.reference import picture_operations as operations
from vectorized_ops.reference import pictures as reference

RAW = Normalisation(np.zeros(3, np.float32), np.ones(3, np.float32))


def _source(count: int = 20, side: int = 8) -> ArraySource:
    pixels = np.random.default_rng(3).integers(0, 256, (count, side, side, 3), np.uint8)
    return source_of(pixels, np.arange(count))


def _images(
    recipe: Recipe,
    source: ArraySource,
    draws: Draws | None = None,
    side: int = 8,
    normalisation: Normalisation = RAW,
    reverses: bool = False,
) -> FloatArray:
    made = Augmenting((side, side, 3), recipe, normalisation, reference.PicturePass, reverses)
    out = np.empty((len(source), side, side, 3), np.float32)
    made.write(source, np.arange(len(source)), draws, out)
    return out


def test_without_a_recipe_images_are_the_pictures_normalised() -> None:
    source, means = _source(), np.array([1, 2, 3], np.float32)
    normalisation = Normalisation(means, np.full(3, 0.5, np.float32))
    found = _images(recipe_named("none", (8, 8)), source, Draws(1, 1), normalisation=normalisation)
    assert np.array_equal(found, (source.pixels.astype(np.float32) - means) * np.float32(0.5))


def test_channels_are_reversed_and_means_are_not() -> None:
    source, means = _source(), np.array([1, 2, 3], np.float32)
    normalisation = Normalisation(means, np.ones(3, np.float32))
    plain = recipe_named("none", (8, 8))
    found = _images(plain, source, normalisation=normalisation, reverses=True)
    assert np.array_equal(found, source.pixels[..., ::-1].astype(np.float32) - means)


def test_about_half_of_the_images_are_mirrored_and_none_in_evaluation() -> None:
    source = _source(400)
    recipe = replace(recipe_named("none", (8, 8)), flips=True)
    found, pixels = _images(recipe, source, Draws(1, 1)), source.pixels.astype(np.float32)
    mirrored = (found == pixels[:, :, ::-1]).all(axis=(1, 2, 3))
    straight = (found == pixels).all(axis=(1, 2, 3))
    assert (mirrored ^ straight).all()
    assert 150 < mirrored.sum() < 250
    assert np.array_equal(_images(recipe, source), pixels)


def test_colours_are_the_same_in_either_order_of_channels() -> None:
    source = _source()
    recipe = Recipe(recipe_named("none", (8, 8)).framing, jitter=0.4, noise=0.3)
    found = _images(recipe, source, Draws(1, 1))
    backwards = _images(recipe, source, Draws(1, 1), reverses=True)
    assert np.abs(found - source.pixels).max() > 20
    assert np.allclose(backwards[..., ::-1], found, atol=1e-3)


def test_brightness_alone_keeps_grey_pictures_grey() -> None:
    grey = source_of(np.full((30, 8, 8, 3), 100, np.uint8), np.arange(30))
    recipe = Recipe(recipe_named("none", (8, 8)).framing, jitter=0.4)
    found = _images(recipe, grey, Draws(1, 1))
    assert np.allclose(found @ GREY.astype(np.float32), found[..., 0], atol=1e-2)
    assert 60 <= found.min() < 70 < 130 < found.max() <= 140


def test_a_mean_picture_of_the_frame_lies_over_its_middle() -> None:
    """A crop is subtracted the same part of it."""
    source = _source(5, side=40)
    pixels = source.pixels.astype(np.float32)
    frame = pixels.mean(axis=0)
    recipe = replace(recipe_named("caffe", (32, 32)), flips=False)
    whole, part = (replace(RAW, mean_picture=mean) for mean in (frame, frame[4:36, 4:36]))
    for mean in (whole, part):
        found = _images(recipe, source, side=32, normalisation=mean)
        assert np.array_equal(found, pixels[:, 4:36, 4:36] - frame[4:36, 4:36])
    cropped = _images(recipe, source, Draws(1, 1), side=32, normalisation=whole)
    parts = np.lib.stride_tricks.sliding_window_view(pixels - frame, (32, 32), axis=(1, 2))
    for image, own in zip(cropped, parts, strict=True):
        assert any(np.array_equal(image, np.moveaxis(one, 0, -1)) for row in own for one in row)


@pytest.mark.parametrize(("recipe", "side"), [("caffe", 7), ("inception", 9)])
def test_mean_pictures_that_do_not_fit_are_refused(recipe: str, side: int) -> None:
    mean = replace(RAW, mean_picture=np.zeros((side, side, 3), np.float32))
    with pytest.raises(DataError, match=rf"data\.mean_file has {side} x {side} pixels, images"):
        Augmenting((8, 8, 3), recipe_named(recipe, (8, 8)), mean, reference.PicturePass)


@pytest.mark.parametrize("recipe", RECIPES)
def test_images_are_the_same_by_both_implementations(recipe: str) -> None:
    source, rows = _source(100, 14), np.arange(100)
    found = []
    for implementation in (reference.PicturePass, numba.PicturePass):
        made = Augmenting((8, 8, 3), recipe_named(recipe, (8, 8)), RAW, implementation)
        out = np.empty((100, 8, 8, 3), np.float32)
        made.write(source, rows, Draws(2, 3), out)
        found.append(out)
    assert np.array_equal(*found)


def test_crops_are_mirrored_in_evaluation() -> None:
    source = _source(3, side=40)
    crops = ten_crops(recipe_named("caffe", (32, 32)))
    first, mirrored = (_images(crops[i], source, side=32) for i in (0, 5))
    assert np.array_equal(first, source.pixels[:, :32, :32].astype(np.float32))
    assert np.array_equal(mirrored, first[:, :, ::-1])


@pytest.mark.parametrize("name", ["randaugment", "cifar"])
def test_operations_are_those_of_the_definition_on_the_part_that_is_shown(name: str) -> None:
    source, draws, rows = _source(30, 16), Draws(1, 2), np.arange(30)
    recipe = replace(recipe_named(name, (8, 8)), operations=3, magnitude=20, flips=False)
    crops = np.rint(_images(replace(recipe, operations=0), source, draws))
    plan, expected = random_operations(RandomWords(draws, rows), 3, 20, (8, 8)), crops.astype("u1")
    operations.operated(crops, plan, expected)
    np.testing.assert_array_equal(_images(recipe, source, draws), expected)
    compiled = Augmenting((8, 8, 3), recipe, RAW, numba.PicturePass, False, compiled_operated)
    out = np.empty((30, 8, 8, 3), np.float32)
    compiled.write(source, rows, draws, out)
    np.testing.assert_array_equal(out, expected)


def test_operations_see_red_first_and_evaluation_has_none() -> None:
    source, draws = _source(), Draws(1, 2)
    recipe = recipe_named("randaugment", (8, 8))
    found = _images(recipe, source, draws)
    np.testing.assert_array_equal(_images(recipe, source, draws, reverses=True), found[..., ::-1])
    still = _images(replace(recipe, operations=0), source)
    np.testing.assert_array_equal(_images(recipe, source), still)


def test_a_mean_picture_is_subtracted_after_operations() -> None:
    source, draws = _source(), Draws(1, 2)
    recipe = replace(recipe_named("caffe", (8, 8)), operations=2)
    picture = np.arange(64 * 3, dtype=np.float32).reshape(8, 8, 3)
    mean = Normalisation(np.zeros(3, np.float32), np.ones(3, np.float32), picture)
    recipe = replace(recipe, flips=False)
    found = _images(recipe, source, draws, normalisation=mean)
    np.testing.assert_array_equal(found, _images(recipe, source, draws) - picture)
