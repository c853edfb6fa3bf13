"""Synthetic images of CIFAR-10's size, for machines without that data set.

The class of an image is the direction of the stripes in a patch. The patch lies anywhere in the
image, on noise, with stripes of any width and phase. Its colour leans towards that of the class.
Colours alone tell little, and single pixels tell nothing of directions: a network needs filters,
and pooling.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import HalfContents, contents_of_recipe
from knltrain.data.dataset import Halves, numbered
from knltrain.data.extent import Extent
from knltrain.data.source import ArraySource, Pixels
from knltrain.errors import DataError
from knltrain.vectors import FloatArray

CLASSES = 10
SIDE = 32
TRAIN_IMAGES, TEST_IMAGES = 50_000, 10_000
"""The most there are, as in CIFAR-10."""

EXTENT = Extent(TRAIN_IMAGES, TEST_IMAGES, (SIDE, SIDE, 3))

_SEED = 20_260
_BLOCK = 1000
"""Images that are drawn from one seed: the first ones are the same, however many are asked for."""

_TRAIN, _TEST = 0, 1
_TURN_DEVIATION = 0.07
"""Standard deviation of the direction, in radians: two classes are 0.31 apart."""
_NOISE_DEVIATION = 0.5
_STEPS, _MIDDLE = 24.0, 100.0
"""Of bytes."""
_LEANING = 1.0
"""Weight of the class's colour, relative to a colour's random deviation."""


def load_synthetic(train_images: int | None = None, test_images: int | None = None) -> Halves:
    """Draw the first images of both halves, uint8 (N,32,32,3).

    They are always the same. Raises DataError when more are requested than exist.
    """
    return Halves(
        "synthetic",
        _drawn(_TRAIN, train_images, TRAIN_IMAGES, "data.train_images"),
        _drawn(_TEST, test_images, TEST_IMAGES, "data.test_images"),
        f"synthetic: stripes in {CLASSES} directions, drawn from a fixed seed",
    )


def in_bytes(images: FloatArray) -> Pixels:
    """Images as bytes: 24 steps are 1, from -4 to 6."""
    found: Pixels = np.clip(np.rint(images * _STEPS + _MIDDLE), 0, 255).astype(np.uint8)
    return found


def _drawn(half: int, wanted: int | None, most: int, key: str) -> ArraySource:
    count = most if wanted is None else wanted
    if count > most:
        raise DataError(f"{key} = {count}, but synthetic holds {most}: ask for {most} or fewer")
    images = np.empty((count, SIDE, SIDE, 3), np.uint8)
    labels = np.empty(count, np.int64)
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        block_images, block_labels = _block(half, begin // _BLOCK)
        images[begin:end] = in_bytes(block_images[: end - begin])
        labels[begin:end] = block_labels[: end - begin]
    contents = _contents(half, count)
    return ArraySource(images, labels, numbered(CLASSES), contents, "synthetic")


def _contents(half: int, count: int) -> HalfContents:
    """Identified by their recipe: the last bits of pixels differ from computer to computer."""
    return contents_of_recipe(f"synthetic bytes {_SEED} {half} {count}", count, EXTENT.image_shape)


def _block(half: int, number: int) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """_BLOCK images and their labels."""
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence((_SEED, half, number))))
    labels = random.integers(0, CLASSES, _BLOCK)
    images = noise(random, _BLOCK)
    images += coloured_patches(random, labels)
    return images, labels


def noise(random: np.random.Generator, images: int) -> FloatArray:
    """What patches lie on, (images,32,32,3)."""
    return random.normal(0.0, _NOISE_DEVIATION, (images, SIDE, SIDE, 3)).astype(np.float32)


def coloured_patches(random: np.random.Generator, labels: npt.NDArray[np.int64]) -> FloatArray:
    """A patch (n,32,32,3) of each class of `labels` (n,), on zeros."""
    colours = random.normal(0.0, 1.0, (len(labels), 3)) + _LEANING * _class_colours()[labels]
    colours /= np.linalg.norm(colours, axis=1, keepdims=True)
    patches = _patches(random, labels)[..., np.newaxis]
    found: FloatArray = patches * colours.astype(np.float32)[:, np.newaxis, np.newaxis]
    return found


def _class_colours() -> npt.NDArray[np.float64]:
    """A direction (10,3) of length 1 for each class."""
    stream = np.random.Philox(np.random.SeedSequence((_SEED, CLASSES)))
    colours = np.random.Generator(stream).normal(0.0, 1.0, (CLASSES, 3))
    directions: npt.NDArray[np.float64] = colours / np.linalg.norm(colours, axis=1, keepdims=True)
    return directions


def _patches(random: np.random.Generator, labels: npt.NDArray[np.int64]) -> FloatArray:
    """Stripes (n,32,32) that fade away from the middle of a patch."""
    count = len(labels)

    def draw(low: float, high: float) -> FloatArray:
        return random.uniform(low, high, (count, 1, 1)).astype(np.float32)

    turn = random.normal(0.0, _TURN_DEVIATION, count)
    angle = (np.pi * labels / CLASSES + turn).astype(np.float32)[:, None, None]
    down, right = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    y, x = down - draw(10.0, 22.0), right - draw(10.0, 22.0)
    wave = np.cos(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / draw(4.0, 8.0) + draw(0, 7))
    fading = np.exp(-(x * x + y * y) / (2 * draw(4.0, 7.0) ** 2))
    patches: FloatArray = (2.0 * (1 + wave) * fading).astype(np.float32)
    return patches
