"""UCI's handwritten digits: 1,797 real images that come with knltrain, so that it runs anywhere.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, doi:10.24432/C50P49, CC BY 4.0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knltrain.data.contents import DataContents, contents_of
from knltrain.data.dataset import (
    Dataset,
    LabelledImages,
    check_labels,
    first_images,
    standardised,
)
from knltrain.data.enlarging import enlarged
from knltrain.data.extent import Extent

ARCHIVE = Path(__file__).with_name("digits.npz")
CLASSES = 10
SIDE = 28  # pixels, as in MNIST, so that the same networks fit
TEST_EVERY = 5

EXTENT = Extent(1438, 359, (SIDE, SIDE, 1))


def load_digits(train_images: int | None = None, test_images: int | None = None) -> Dataset:
    """The digits as float32 (N,28,28,1): every fifth image for testing, 1,438 and 359 in all.

    The 8x8 images are enlarged bilinearly and standardised by the training images.
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
    images = enlarged(pixels[..., None], SIDE)
    train_nhwc, test_nhwc = standardised(images[train], images[test])
    halves = (contents_of(pixels[half], labels[half]) for half in (train, test))
    return Dataset(
        name="digits",
        train=LabelledImages(train_nhwc, labels[train].astype(np.int64)),
        test=LabelledImages(test_nhwc, labels[test].astype(np.int64)),
        classes=CLASSES,
        description=f"8x8 digits enlarged to {SIDE}x{SIDE}, every fifth for testing; {credit}",
        contents=DataContents("digits", *halves),
    )
