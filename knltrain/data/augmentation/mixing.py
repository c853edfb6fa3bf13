"""Training images mixed with others, and their labels: mixup and CutMix.

Each image has a partner of its own among all training pictures, so neither the number of workers
nor the batch changes what it is mixed with. It costs a second picture for each image.
"""

from __future__ import annotations

import threading
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.augmentation.random_words import RandomWords, Words, below
from knltrain.data.preprocessing import Draws, Preprocessing
from knltrain.data.source import ImageSource, LabelArray, Rows
from knltrain.vectors import FloatArray

PARTNER, KIND, SHARE, CENTRE = 24, 25, 26, 27
"""What is decided here; see `RandomWords`."""

TRIES: Final = 16
AT_ONCE: Final = 16
"""Partners that are held at a time."""


@final
class Mixing:
    """Mixes images by mixup and CutMix; where both are given, half of the images by each.

    `mixup` and `cutmix` are the parameter a of the distribution Beta(a, a) of an image's own share,
    0.05 to 1; 0 for none. With mixup (Zhang et al., 2018) an image is the mean of two by their
    shares. With CutMix (Yun et al., 2019) a box of one is replaced by that of another, and the
    share is that of the area. Labels become targets, the mean of both.
    """

    def __init__(self, mixup: float, cutmix: float) -> None:
        self._mixup, self._cutmix = mixup, cutmix
        self._memory = threading.local()

    def partners(self, rows: Rows, draws: Draws, images: int) -> Rows:
        """What images `rows` (n,) of so many are mixed with, (n,)."""
        return below(RandomWords(draws, rows).words(PARTNER), images)[:, 0]

    def write(
        self,
        source: ImageSource,
        preprocessing: Preprocessing,
        rows: Rows,
        draws: Draws,
        images: FloatArray,
        targets: FloatArray,
    ) -> None:
        """Write images (n,H,W,C) of the pictures `rows` (n,), and targets (n, classes)."""
        random, classes = RandomWords(draws, rows), targets.shape[1]
        partners = self.partners(rows, draws, len(source))
        boxes, shares = self._decided(random, images.shape[1:3])
        targets[:] = _targets(source.labels[rows], classes) * shares[:, None]
        targets += _targets(source.labels[partners], classes) * (1 - shares)[:, None]
        preprocessing.write(source, rows, draws, images)
        others = self._others(images.shape[1:])
        for begin in range(0, len(rows), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            found = others[: len(partners[part])]
            preprocessing.write(source, partners[part], draws, found)
            _mix(images[part], found, boxes[part], shares[part])

    def _decided(
        self, random: RandomWords, image: tuple[int, ...]
    ) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Boxes (n,4) from CutMix (top, left, bottom, right), empty with mixup; and own shares."""
        is_cut = np.full(len(random), self._cutmix > 0)
        if self._mixup and self._cutmix:
            is_cut = below(random.words(KIND), 2)[:, 0] == 1
        words = random.words(SHARE, 2 * TRIES).reshape(-1, TRIES, 2)
        shares = np.zeros(len(random))
        for wanted, parameter in ((is_cut, self._cutmix), (~is_cut, self._mixup)):
            if wanted.any():
                shares[wanted] = beta(words[wanted], parameter)
        boxes = _boxes(random, 1 - shares, np.array(image))
        boxes[~is_cut] = 0
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        shares = np.where(is_cut, 1 - areas / np.prod(image), shares)
        return boxes, shares.astype(np.float32)

    def _others(self, image: tuple[int, ...]) -> FloatArray:
        """Room of the calling thread for partners."""
        found: FloatArray | None = getattr(self._memory, "others", None)
        if found is None:
            found = self._memory.others = np.zeros((AT_ONCE, *image), np.float32)
        return found


def beta(words: Words, parameter: float) -> npt.NDArray[np.float64]:
    """Numbers of the distribution Beta(a, a), a <= 1, from words (n, tries, 2).

    Jöhnk's method (Metrika 8, 1964): x = u^(1/a) and y = v^(1/a) until x + y <= 1, then x / (x +
    y). If no try succeeds, the last one is taken.
    """
    powers = ((words.astype(np.float64) + 0.5) * 2.0**-32) ** (1 / parameter)
    sums = powers.sum(axis=2)
    fits = sums <= 1
    first = np.where(fits.any(axis=1), fits.argmax(axis=1), words.shape[1] - 1)
    each = np.arange(len(words))
    found: npt.NDArray[np.float64] = powers[each, first, 0] / sums[each, first]
    return found


def _boxes(
    random: RandomWords, shares: npt.NDArray[np.float64], image: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Boxes of these shares of an image's area around random places, cut off at its edges."""
    sizes = (image * np.sqrt(shares)[:, None]).astype(np.int64)
    centres = below(random.words(CENTRE, 2), image)
    corners = [np.clip(centres + each, 0, image) for each in (-(sizes // 2), sizes - sizes // 2)]
    return np.concatenate(corners, axis=1)


def _mix(
    images: FloatArray, others: FloatArray, boxes: npt.NDArray[np.int64], shares: FloatArray
) -> None:
    for image, other, box, share in zip(images, others, boxes.tolist(), shares, strict=True):
        top, left, bottom, right = box
        if any(box):
            image[top:bottom, left:right] = other[top:bottom, left:right]
        elif share < 1:
            image *= share
            other *= np.float32(1) - share
            image += other


def _targets(labels: LabelArray, classes: int) -> FloatArray:
    if labels.ndim == 2:
        return labels.astype(np.float32, copy=False)
    found: FloatArray = (np.arange(classes) == labels[:, None]).astype(np.float32)
    return found
