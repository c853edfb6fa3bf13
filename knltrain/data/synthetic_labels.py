"""Synthetic images with several classes each, or none: patches of `knltrain.data.synthetic`.

An image has up to three patches. Its label has a target for each class: 1 if one of them is of that
class, 0 if none is.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from knltrain.data import synthetic
from knltrain.data.contents import HalfContents, contents_of_recipe
from knltrain.data.dataset import Halves, numbered
from knltrain.data.extent import Extent
from knltrain.data.source import ArraySource
from knltrain.data.synthetic import CLASSES
from knltrain.errors import DataError
from knltrain.vectors import FloatArray

EXTENT: Final = Extent(10_000, 2_000, synthetic.EXTENT.image_shape, (CLASSES,))
"""The most there are."""

MOST_PATCHES: Final = 3

_NAME: Final = "synthetic-labels"
_SEED: Final = 20_261
_BLOCK: Final = 500
"""Images that are drawn from one seed: the first ones are the same, however many are asked for."""


def load_synthetic_labels(
    train_images: int | None = None, test_images: int | None = None
) -> Halves:
    """Draw the first images of both halves, uint8 (N,32,32,3).

    Labels are targets, float32 (N,10). They are always the same. Raises DataError when more are
    requested than exist.
    """
    return Halves(
        _NAME,
        _drawn(0, train_images, EXTENT.train_images, "data.train_images"),
        _drawn(1, test_images, EXTENT.test_images, "data.test_images"),
        f"{_NAME}: up to {MOST_PATCHES} patches of {CLASSES} classes in an image, drawn from a "
        "fixed seed",
    )


def _drawn(half: int, wanted: int | None, most: int, key: str) -> ArraySource:
    count = most if wanted is None else wanted
    if count > most:
        raise DataError(f"{key} = {count}, but {_NAME} holds {most}: ask for {most} or fewer")
    images = np.empty((count, *EXTENT.image_shape), np.uint8)
    targets = np.empty((count, CLASSES), np.float32)
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        block_images, block_targets = _block(half, begin // _BLOCK)
        images[begin:end] = synthetic.in_bytes(block_images[: end - begin])
        targets[begin:end] = block_targets[: end - begin]
    return ArraySource(images, targets, numbered(CLASSES), _contents(half, count), _NAME)


def _contents(half: int, count: int) -> HalfContents:
    return contents_of_recipe(f"{_NAME} bytes {_SEED} {half} {count}", count, EXTENT.image_shape)


def _block(half: int, number: int) -> tuple[FloatArray, FloatArray]:
    """_BLOCK images and their targets."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence((_SEED, half, number))))
    images = synthetic.noise(random, _BLOCK)
    targets = np.zeros((_BLOCK, CLASSES), np.float32)
    patches = random.integers(0, MOST_PATCHES + 1, _BLOCK)
    for patch in range(MOST_PATCHES):
        labels, there = random.integers(0, CLASSES, _BLOCK), patches > patch
        images += synthetic.coloured_patches(random, labels) * there[:, None, None, None]
        targets[there, labels[there]] = 1.0
    return images, targets
