"""What every preprocessing promises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from knltrain.data.preprocessing import Draws, Preprocessing
from knltrain.data.standardising import Standardising
from tests.knltrain.data.given import source_of

EVERY: dict[str, Callable[[], Preprocessing]] = {
    "standardising": lambda: Standardising((6, 6, 3), 100, 50, side=9, shift_pixels=2),
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
