"""MNIST: 28x28 handwritten digits in idx files (LeCun, Cortes and Burges)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import (
    Dataset,
    LabelledImages,
    check_labels,
    first_images,
    standardised,
)
from knltrain.data.idx import read_idx
from knltrain.errors import DataError

CLASSES = 10
TRAIN_SHARE = 0.9  # of a half that has to serve for both

Half = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


def load_mnist(
    root: Path, train_images: int | None = None, test_images: int | None = None
) -> Dataset:
    """Read MNIST from the idx files in `root`, gzipped or not.

    With both halves there, train and test are the usual 60,000 and 10,000 images. With only the
    t10k half, its first nine tenths are for training and the last tenth for testing (9,000 and
    1,000); the data set is then named "mnist-t10k" and its description says so. `train_images`
    and `test_images` keep the first of each. Images float32 (N,28,28,1), standardised by the
    training images. Raises DataError naming the file that is missing, damaged or does not fit.
    """
    train, test, name, description = _halves(root)
    train_slice = first_images(train[1], train_images, "data.train_images", description)
    test_slice = first_images(test[1], test_images, "data.test_images", description)
    train_nhwc, test_nhwc = standardised(
        train[0][train_slice, :, :, None].astype(np.float32),
        test[0][test_slice, :, :, None].astype(np.float32),
    )
    return Dataset(
        name=name,
        train=LabelledImages(train_nhwc, train[1][train_slice].astype(np.int64)),
        test=LabelledImages(test_nhwc, test[1][test_slice].astype(np.int64)),
        classes=CLASSES,
        description=description,
    )


def _half(root: Path, half: str) -> Half:
    images_path = _required(root, f"{half}-images-idx3-ubyte")
    labels_path = _required(root, f"{half}-labels-idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    _check_dimensions(images_path, images, 3)
    _check_dimensions(labels_path, labels, 1)
    if len(images) != len(labels):
        raise DataError(
            f"{images_path} holds {len(images)} images, but {labels_path} {len(labels)} labels: "
            "take both from the same half of MNIST"
        )
    check_labels(labels, CLASSES, str(labels_path))
    return images, labels


def _halves(root: Path) -> tuple[Half, Half, str, str]:
    """Training half, test half, name and description."""
    images, labels = test = _half(root, "t10k")
    if _find(root, "train-images-idx3-ubyte") is not None:
        return _half(root, "train"), test, "mnist", f"MNIST from {root}"
    cut = round(len(labels) * TRAIN_SHARE)
    description = (
        f"MNIST's t10k half from {root}, its first {cut} images for training and the other "
        f"{len(labels) - cut} for testing, because train-images-idx3-ubyte is not there"
    )
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:]), "mnist-t10k", description


def _find(root: Path, name: str) -> Path | None:
    return next((path for path in (root / name, root / f"{name}.gz") if path.is_file()), None)


def _required(root: Path, name: str) -> Path:
    path = _find(root, name)
    if path is None:
        there = ", ".join(sorted(entry.name for entry in root.iterdir())) if root.is_dir() else ""
        raise DataError(
            f"{root / name}[.gz] is missing (the folder holds {there or 'nothing'}): "
            "set data.root to a folder with MNIST's idx files"
        )
    return path


def _check_dimensions(path: Path, array: npt.NDArray[np.uint8], expected: int) -> None:
    if array.ndim != expected:
        raise DataError(f"{path}: has {array.ndim} dimensions, expected {expected}")
