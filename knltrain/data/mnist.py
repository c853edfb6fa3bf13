"""MNIST: 28x28 handwritten digits in idx files (LeCun, Cortes and Burges)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import contents_of
from knltrain.data.dataset import Halves, check_labels, first_images, numbered
from knltrain.data.extent import Extent
from knltrain.data.idx import read_idx
from knltrain.data.mnist_files import T10K_ALONE, HalfFiles, t10k_half, training_half
from knltrain.data.source import ArraySource
from knltrain.errors import DataError

CLASSES = 10
TRAIN_SHARE = 0.9  # of a half that has to serve for both

Half = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


def mnist_extent(root: Path, alone: bool = False) -> Extent:
    """How large MNIST in `root` is, by the headers of its files; see `load_mnist`.

    Raises DataError where a file is missing or does not fit.
    """
    test, train = t10k_half(root), None if alone else training_half(root)
    count, height, width = test.shape()
    if train is None:
        cut = _cut(test, count)
        return Extent(cut, count - cut, (height, width, 1))
    train_count, *train_shape = train.shape()
    if train_shape != [height, width]:
        raise DataError(
            f"{train.images} has images of {' x '.join(map(str, train_shape))} pixels, but "
            f"{test.images} of {height} x {width}: take both halves from the same data set"
        )
    return Extent(train_count, count, (height, width, 1))


def load_mnist(
    root: Path,
    train_images: int | None = None,
    test_images: int | None = None,
    alone: bool = False,
) -> Halves:
    """Read MNIST from the idx files in `root`, gzipped or not.

    With both halves, train and test are the usual 60,000 and 10,000 images. With the t10k half
    only, or where it is requested `alone`, its first nine tenths are for training and the last
    tenth for testing (9,000 and 1,000); the data set is then named "mnist-t10k" and its description
    says so. `train_images` and `test_images` keep the first of each. Images are uint8
    (N,28,28,1). Raises DataError naming the file that is
    missing, damaged or does not fit, and where the training half exists in a form that cannot be
    read.
    """
    mnist_extent(root, alone)
    train, test, name, description = _halves(root, alone)
    train_slice = first_images(train[1], train_images, "data.train_images", description)
    test_slice = first_images(test[1], test_images, "data.test_images", description)
    train, test = _first(train, train_slice), _first(test, test_slice)
    return Halves(
        name=name,
        train=_source(train, str(root)),
        test=_source(test, str(root)),
        description=description,
        notes=() if alone or name != T10K_ALONE else (description,),
    )


def _source(half: Half, origin: str) -> ArraySource:
    images, labels = half
    contents = contents_of(images, labels)
    names = numbered(CLASSES)
    return ArraySource(images[..., None], labels.astype(np.int64), names, contents, origin)


def _half(files: HalfFiles) -> Half:
    images, labels = read_idx(files.images), read_idx(files.labels)
    check_labels(labels, CLASSES, str(files.labels))
    return images, labels


def _halves(root: Path, alone: bool) -> tuple[Half, Half, str, str]:
    """Training half, test half, name and description."""
    files, train = t10k_half(root), None if alone else training_half(root)
    images, labels = test = _half(files)
    if train is not None:
        return _half(train), test, "mnist", f"MNIST from {root}"
    cut = _cut(files, len(labels))
    why = "as was asked for" if alone else "because there are no images of the training half"
    description = (
        f"MNIST's t10k half from {root}, its first {cut} images for training and the other "
        f"{len(labels) - cut} for testing, {why}"
    )
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:]), T10K_ALONE, description


def _cut(files: HalfFiles, images: int) -> int:
    """The number of training images in a half that is split; the rest is for testing."""
    cut = round(images * TRAIN_SHARE)
    if cut in (0, images):
        raise DataError(
            f"{files.images} holds {images} image{'s' * (images > 1)}: too few to learn from some "
            "and be tested on others"
        )
    return cut


def _first(half: Half, wanted: slice) -> Half:
    return half[0][wanted], half[1][wanted]
