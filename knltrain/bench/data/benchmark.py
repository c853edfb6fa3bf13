"""`knltrain bench data`: pictures made into images, by each recipe, beside a copy of memory.

Recipes take turns, in one thread, whose processor time counts. Pictures are random bytes in memory,
more than fit into caches; the images of a batch are written again and again. The copy is of 64 MiB,
measured in each round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from affinity import read_topology
from knltrain.data.augmentation.augmenting import Augmenting
from knltrain.data.augmentation.normalisation import (
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    Normalisation,
)
from knltrain.data.augmentation.recipes import RECIPES, recipe_named
from knltrain.data.contents import contents_of_recipe
from knltrain.data.dataset import Batch, numbered
from knltrain.data.preprocessing import Draws
from knltrain.data.source import ArraySource
from knltrain.errors import ConfigError, unknown_name
from vectorized_ops.implementations import Operations
from vectorized_ops.timing import mean_seconds

IMPLEMENTATIONS: Final = ("numba", "reference")
COPIED_FLOATS: Final = 1 << 24
PICTURE_BYTES: Final = 1 << 26
"""Of all pictures together, at least."""

ENOUGH_SECONDS: Final = 0.02
"""What takes less is repeated within one timing."""

_READ_AND_WRITTEN = 1 + 4
"""Bytes of each value: a byte becomes a float."""


def run_data_benchmark(
    recipes: tuple[str, ...],
    pixels: int,
    side: int,
    channels: int,
    images: int,
    rounds: int,
    implementation: str,
) -> dict[str, Any]:
    """Make batches of `images` images of `side` pixels of pictures of `pixels`, each square.

    The report has the machine; copy_gbytes_per_second (read and written); and a row per recipe:
    pictures_per_second, gbytes_per_second (a byte read and four written for each value of an image)
    and share_of_copy, medians over the rounds. Raises ConfigError for unknown names.
    """
    for name in recipes:
        if name not in RECIPES:
            raise ConfigError(unknown_name("recipe", name, RECIPES))
    if implementation not in IMPLEMENTATIONS:
        raise ConfigError(unknown_name("implementation", implementation, IMPLEMENTATIONS))
    source, batch = (
        _source(pixels, channels, images),
        Batch.allocate(images, (side, side, channels)),
    )
    made = {name: preprocessing_named(name, batch, implementation) for name in recipes}
    rows = np.random.default_rng(1).permutation(len(source))[:images].astype(np.int64)
    seconds: dict[str, list[float]] = {name: [] for name in recipes}
    copies: list[float] = []
    given, copied = np.ones((2, COPIED_FLOATS), np.float32)
    for name in recipes:
        made[name].write(source, rows, Draws(1, 0), batch.images_nhwc)
    for turn in range(rounds):
        copies.append(processor_seconds(lambda: np.copyto(copied, given)))
        for name in recipes:
            seconds[name].append(_taken(made[name], source, rows, turn, batch))
    return {
        "machine": read_topology().model,
        "implementation": implementation,
        "picture_pixels": pixels,
        "side_pixels": side,
        "channels": channels,
        "images": images,
        "rounds": rounds,
        "copy_gbytes_per_second": 2 * given.nbytes / statistics.median(copies) / 1e9,
        "rows": [_row(name, seconds[name], copies, batch) for name in recipes],
    }


def _source(pixels: int, channels: int, images: int) -> ArraySource:
    count = max(images, -(-PICTURE_BYTES // (pixels * pixels * channels)))
    shape = pixels, pixels, channels
    values = np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)
    contents = contents_of_recipe("bench data", count, shape)
    return ArraySource(values, np.zeros(count, np.int64), numbered(1), contents, "bench data")


def preprocessing_named(recipe: str, batch: Batch, implementation: str) -> Augmenting:
    """How pictures become the images of a batch by a recipe, with ImageNet's numbers."""
    _, height, width, channels = batch.images_nhwc.shape
    numbers = (
        np.array(each[:channels], np.float32) for each in (IMAGENET_MEAN, IMAGENET_DEVIATION)
    )
    mean, deviation = numbers
    parts = Operations(implementation)
    return Augmenting(
        (height, width, channels),
        recipe_named(recipe, (height, width)),
        Normalisation(mean, np.reciprocal(deviation)),
        parts.part("pictures", "PicturePass"),
        operate=parts.part("picture_operations", "operated"),
    )


def _taken(
    made: Augmenting, source: ArraySource, rows: np.ndarray[Any, Any], turn: int, batch: Batch
) -> float:
    return processor_seconds(lambda: made.write(source, rows, Draws(1, turn), batch.images_nhwc))


def processor_seconds(run: Callable[[], object]) -> float:
    """The mean processor time of one run."""
    return mean_seconds(run, ENOUGH_SECONDS, time.thread_time)


def _row(name: str, seconds: list[float], copies: list[float], batch: Batch) -> dict[str, Any]:
    size = batch.images_nhwc.size
    moved = size * _READ_AND_WRITTEN
    shares = [
        moved / taken / (8 * COPIED_FLOATS / copy)
        for taken, copy in zip(seconds, copies, strict=True)
    ]
    median = statistics.median(seconds)
    return {
        "recipe": name,
        "pictures_per_second": len(batch.labels) / median,
        "gbytes_per_second": moved / median / 1e9,
        "share_of_copy": statistics.median(shares),
    }
