"""UCI's handwritten digits: 1,797 real images that come with knltrain, so that it runs anywhere.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, doi:10.24432/C50P49, CC BY 4.0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import contents_of
from knltrain.data.dataset import Halves, check_labels, first_images, numbered
from knltrain.data.extent import Extent
from knltrain.data.source import ArraySource, Pixels
from vectorized_ops.reference.pictures import interpolation

ARCHIVE = Path(__file__).with_name("digits.npz")
CLASSES = 10
SIDE = 28  # pixels, as in MNIST, so that the same networks fit
TEST_EVERY = 5

EXTENT = Extent(1438, 359, (SIDE, SIDE, 1))


def load_digits(train_images: int | None = None, test_images: int | None = None) -> Halves:
    """The digits as uint8 (N,28,28,1): every fifth for testing, 1,438 and 359 in all.

    The images of 8x8 pixels, 0 to 16, are enlarged once and brought to 0 to 255.
    `train_images` and `test_images` keep the first of each; DataError when there are fewer.
    """
    with np.load(ARCHIVE) as archive:
        pixels, labels, credit = archive["images"], archive["labels"], str(archive["credit"])
    check_labels(labels, CLASSES, str(ARCHIVE))
    for_test = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
    train = np.flatnonzero(~for_test)
    test = np.flatnonzero(for_test)
    train = train[first_images(train, train_images, "data.train_images", "digits")]
    test = test[first_images(test, test_images, "data.test_images", "digits")]
    train_source, test_source = (
        ArraySource(
            _enlarged(pixels[half]),
            labels[half].astype(np.int64),
            numbered(CLASSES),
            contents_of(pixels[half], labels[half]),
            "digits",
        )
        for half in (train, test)
    )
    description = f"8x8 digits enlarged to {SIDE}x{SIDE}, every fifth for testing; {credit}"
    return Halves("digits", train_source, test_source, description)


def _enlarged(pixels: npt.NDArray[np.float64]) -> Pixels:
    """Images (N,8,8) of 0 to 16 as bytes (N,28,28,1)."""
    size = pixels.shape[1]
    weights = np.zeros((SIDE, size))
    for row, (start, taps) in zip(weights, interpolation(size, 0, size, SIDE), strict=True):
        row[start : start + len(taps)] = taps
    large = weights @ (pixels * (255 / 16)) @ weights.T
    found: Pixels = np.rint(large).astype(np.uint8)[..., None]
    return found
