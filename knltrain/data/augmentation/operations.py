"""RandAugment: some operations on each picture, drawn from fourteen, of one magnitude.

Cubuk, Zoph, Shlens, Le, "RandAugment: Practical automated data augmentation with a reduced search
space", NeurIPS 2020. Operations, their ranges and the scale of magnitudes are those of
torchvision's RandAugment: places move to the nearest pixel, and what comes from beyond is black.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from knltrain.data.augmentation.random_words import RandomWords, below
from vectorized_ops.reference.picture_operations import NUMBERS, ONE, Kind, OperationPlan

OPERATIONS: Final = 40
"""What is decided here; see `RandomWords`."""

LARGEST: Final = 30
"""The largest magnitude."""

_SHEAR, _SHIFT, _TURN, _SHARE = 0.3, 150 / 331, 30.0, 0.9
"""Of the largest magnitude: pixels a pixel, parts of a side, degrees, distance from 1."""

_Numbers: TypeAlias = Callable[[float, int, int], Sequence[float]]
"""Numbers of an operation: by a magnitude of -1 to 1, and the height and width of images."""


def _moved(a: float, b: float, c: float, d: float, e: float, f: float) -> Sequence[float]:
    """Of a map of places: that of the centres of pixels, which lie at halves."""
    found = a, b, c + (a + b) / 2, d, e, f + (d + e) / 2
    return [each * ONE for each in found]


def _turned(magnitude: float, height: int, width: int) -> Sequence[float]:
    angle = math.radians(_TURN * magnitude)
    cosine, sine, x, y = math.cos(angle), math.sin(angle), width / 2, height / 2
    return _moved(cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y)


def _share(magnitude: float, _height: int, _width: int) -> Sequence[float]:
    return [ONE * (1 + _SHARE * magnitude)]


def _none(_magnitude: float, _height: int, _width: int) -> Sequence[float]:
    return []


SPACE: Final[dict[str, tuple[Kind, bool, _Numbers]]] = {
    "identity": (Kind.SAME, False, _none),
    "shear_x": (Kind.MOVED, True, lambda m, _h, _w: _moved(1, _SHEAR * m, 0, 0, 1, 0)),
    "shear_y": (Kind.MOVED, True, lambda m, _h, _w: _moved(1, 0, 0, _SHEAR * m, 1, 0)),
    "translate_x": (Kind.MOVED, True, lambda m, _h, w: _moved(1, 0, int(_SHIFT * w * m), 0, 1, 0)),
    "translate_y": (Kind.MOVED, True, lambda m, h, _w: _moved(1, 0, 0, 0, 1, int(_SHIFT * h * m))),
    "rotate": (Kind.MOVED, True, _turned),
    "brightness": (Kind.BRIGHTNESS, True, _share),
    "saturation": (Kind.SATURATION, True, _share),
    "contrast": (Kind.CONTRAST, True, _share),
    "sharpness": (Kind.SHARPNESS, True, _share),
    "posterize": (Kind.POSTERIZE, False, lambda m, _h, _w: [256 - (1 << round(4 * m))]),
    "solarize": (Kind.SOLARIZE, False, lambda m, _h, _w: [255 - 255 * m]),
    "autocontrast": (Kind.AUTOCONTRAST, False, _none),
    "equalize": (Kind.EQUALIZE, False, _none),
}
"""Of each operation: what it does, whether its magnitude may be negative, and its numbers."""


def random_operations(
    random: RandomWords, count: int, magnitude: int, image: tuple[int, int]
) -> OperationPlan:
    """`count` operations of a magnitude of 0 to 30 for images (H,W), anew for each picture.

    Each of the fourteen is as likely, and so is each sign.
    """
    words = random.words(OPERATIONS, 2 * count).reshape(-1, count, 2)
    chosen = 2 * below(words[..., 0], len(SPACE)) + below(words[..., 1], 2)
    kinds = np.array([kind for kind, _, _ in SPACE.values() for _ in range(2)], np.int64)
    numbers = np.zeros((2 * len(SPACE), NUMBERS), np.int64)
    for place, (_, has_sign, found) in enumerate(SPACE.values()):
        for sign in range(2):
            part = magnitude / LARGEST * (-1 if sign and has_sign else 1)
            own = found(part, *image)
            numbers[2 * place + sign, : len(own)] = np.rint(own)
    return OperationPlan(kinds[chosen], numbers[chosen])
