from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.framing import RandomArea, ShortSide
from knltrain.data.augmentation.random_words import RandomWords
from knltrain.data.augmentation.recipes import RECIPES, recipe_named, ten_crops
from knltrain.data.preprocessing import Draws
from knltrain.errors import ConfigError


def test_recipes_are_what_they_are_known_for() -> None:
    made = {name: recipe_named(name, (224, 224)) for name in RECIPES}
    assert [name for name, recipe in made.items() if not recipe.flips] == ["none"]
    assert {name: recipe.jitter for name, recipe in made.items() if recipe.jitter} == {
        "inception": 0.4
    }
    assert {name: recipe.noise for name, recipe in made.items() if recipe.noise} == {"vgg": 0.1}
    assert isinstance(made["caffe"].framing, ShortSide)
    assert isinstance(made["inception"].framing, RandomArea)


@pytest.mark.parametrize(("side", "shift", "expected"), [(32, 0, 4), (64, 0, 8), (32, 2, 2)])
def test_cifar_moves_by_an_eighth_or_what_is_asked_for(
    side: int, shift: int, expected: int
) -> None:
    recipe, rows = recipe_named("cifar", (side, side), shift), np.arange(400)
    sizes = np.full((400, 2), side)
    boxes = recipe.framing.parts(sizes, RandomWords(Draws(1, 1), rows)).boxes
    assert (boxes[:, :2].min(), boxes[:, :2].max()) == (-expected, expected)


def test_unknown_recipes_are_refused_with_the_other_names() -> None:
    with pytest.raises(ConfigError, match=r"unknown data\.recipe 'cafe'.*did you mean 'caffe'"):
        recipe_named("cafe", (224, 224))


def test_ten_crops_are_five_places_and_their_mirror_images() -> None:
    crops = ten_crops(recipe_named("caffe", (224, 224)))
    sizes = np.array([[256, 256]])
    places = [tuple(crop.framing.parts(sizes, None).boxes[0, :2].tolist()) for crop in crops]
    assert places[:5] == [(0, 0), (0, 32), (32, 0), (32, 32), (16, 16)]
    assert places[5:] == places[:5]
    assert [crop.mirrors for crop in crops] == [False] * 5 + [True] * 5


def test_crops_of_whole_pictures_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.crops = 10: with this data\.recipe"):
        ten_crops(recipe_named("cifar", (32, 32)))
