"""Random changes of a picture's colours, composed into one matrix for each picture."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from knltrain.data.augmentation.random_words import (
    NORMAL_WORDS,
    RandomWords,
    below,
    normal,
    shares,
)

Matrices = npt.NDArray[np.float64]

JITTER, NOISE = 8, 9
"""What is decided here; see `RandomWords`."""

GREY: Final = np.array([0.299, 0.587, 0.114])
"""How much red, green and blue count in grey (ITU-R BT.601)."""

_ORDERS = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])
_DEVIATIONS: Final = 255 * np.array([0.2175, 0.0188, 0.0045])
_DIRECTIONS: Final = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
"""Principal components of ImageNet's colours: their deviations, and directions in the columns."""


def jittered(random: RandomWords, strength: float, channels: int) -> tuple[Matrices, Matrices]:
    """Brightness, contrast and saturation changed, in random order, by up to `strength` each.

    Returns M and E (n,C,C): a pixel v becomes M v + E m, m being the picture's mean pixel. Each
    factor f is uniform in 1 - strength to 1 + strength, at least 0. Brightness: f v. Contrast: f v
    + (1 - f) times the grey of the mean. Saturation: f v + (1 - f) times its own grey. Nothing is
    cut off at black and white, unlike in torchvision's ColorJitter.
    """
    words, count = random.words(JITTER, 4), len(random)
    factors = np.maximum(0.0, 1 + strength * (2 * shares(words[:, :3]) - 1))
    orders = _ORDERS[below(words[:, 3], len(_ORDERS))]
    grey = np.tile(GREY if channels == 3 else np.ones(1), (channels, 1))
    same = np.broadcast_to(np.eye(channels), (count, channels, channels))
    matrix, of_mean = same.copy(), np.zeros_like(same)
    for place in range(3):
        kind = orders[:, place]
        factor = factors[np.arange(count), kind][:, None, None]
        to_grey = (1 - factor) * grey
        mean_grey = np.where((kind == 1)[:, None, None], _product(to_grey, matrix + of_mean), 0.0)
        turning = factor * same + np.where((kind == 2)[:, None, None], to_grey, 0.0)
        matrix, of_mean = _product(turning, matrix), _product(turning, of_mean) + mean_grey
    return matrix, of_mean


def colour_noise(random: RandomWords, strength: float) -> npt.NDArray[np.float64]:
    """What is added to all pixels of a picture (n,3), of 0 to 255 (Krizhevsky et al., 2012).

    The sum over ImageNet's principal components of component times deviation times a normal number
    of deviation `strength`.
    """
    words = random.words(NOISE, 3 * NORMAL_WORDS)
    turns = [normal(words[:, i * NORMAL_WORDS :][:, :NORMAL_WORDS]) for i in range(3)]
    weights = strength * _DEVIATIONS * np.stack(turns, axis=1)
    return _product(weights[:, None], _DIRECTIONS.T)[:, 0]


def _product(left: Matrices, right: Matrices) -> Matrices:
    """Of matrices, each sum from left to right: libraries sum as the processor likes best."""
    total = left[..., :, :1] * right[..., :1, :]
    for c in range(1, left.shape[-1]):
        total = total + left[..., :, c : c + 1] * right[..., c : c + 1, :]
    return total
