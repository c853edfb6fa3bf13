"""What every preprocessing promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from knltrain.data.augmentation.augmenting import Augmenting, MakesPass
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.augmentation.recipes import RECIPES, recipe_named
from knltrain.data.preprocessing import Draws, Preprocessing
from tests.knltrain.data.given import source_of
from vectorized_ops.numba import pictures as numba
from vectorized_ops.reference import pictures as reference

NORMALISATION = Normalisation(np.array([100, 90, 80], np.float32), np.full(3, 0.02, np.float32))


def _made(recipe: str, side: int, implementation: MakesPass) -> Preprocessing:
    chosen = recipe_named(recipe, (side, side))
    return Augmenting((side, side, 3), chosen, NORMALISATION, implementation, reverses=True)


EVERY: dict[str, Callable[[], Preprocessing]] = {
    f"{recipe}-{name}": partial(_made, recipe, 9, implementation)
    for recipe in RECIPES
    for name, implementation in (("reference", reference.PicturePass), ("numba", numba.PicturePass))
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("draws", [None, Draws(5, 2)])
def test_an_image_does_not_depend_on_the_others_of_its_batch(
    name: str, draws: Draws | None
) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (12, 6, 6, 3), np.uint8)
    source, made = source_of(pixels, np.arange(12)), EVERY[name]()
    every = np.empty((12, *made.image_shape), np.float32)
    made.write(source, np.arange(12), draws, every)
    for rows in ([7], [11, 0, 3]):
        few = np.empty((len(rows), *made.image_shape), np.float32)
        made.write(source, np.array(rows), draws, few)
        assert np.array_equal(few, every[rows])
