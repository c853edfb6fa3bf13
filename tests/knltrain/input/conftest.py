"""A small data set of pictures in memory, and rings for batches of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from knltrain.data.augmentation.augmenting import Augmenting
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.augmentation.recipes import recipe_named
from knltrain.data.contents import contents_of
from knltrain.data.dataset import Dataset, Halves, numbered
from knltrain.data.source import ArraySource
from knltrain.input.batch_ring import BatchRing
from knltrain.input.batch_shape import BatchShape
from vectorized_ops.numba.pictures import PicturePass

MakeRing = Callable[..., BatchRing]


@pytest.fixture
def small_dataset() -> Dataset:
    """40 and 10 pictures of 6 x 5 pixels in 4 classes, moved by up to a pixel in training."""
    return dataset_of(40, 10)


def dataset_of(train: int, test: int) -> Dataset:
    random = np.random.default_rng(3)

    def half(count: int) -> ArraySource:
        pixels = random.integers(0, 256, (count, 6, 5, 3), np.uint8)
        labels = random.integers(0, 4, count)
        return ArraySource(pixels, labels, numbered(4), contents_of(pixels, labels), "made up")

    halves = Halves("small", half(train), half(test), notes=("said",))
    normalisation = Normalisation(np.full(3, 127, np.float32), np.full(3, 1 / 60, np.float32))
    recipe = recipe_named("none", (6, 5), 1)
    return Dataset.of(halves, Augmenting((6, 5, 3), recipe, normalisation, PicturePass))


@pytest.fixture
def make_ring() -> Iterator[MakeRing]:
    """make_ring(workers=1, slots=2): rings for batches of 4 of these pictures."""
    made = []

    def make(workers: int = 1, slots: int = 2) -> BatchRing:
        made.append(BatchRing.create(workers, slots, BatchShape(4, (6, 5, 3))))
        return made[-1]

    yield make
    for ring in made:
        ring.close()
