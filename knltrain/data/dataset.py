"""Labelled images in memory, and the batches that training and evaluation are fed with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import DataContents
from knltrain.data.source import LabelArray
from knltrain.errors import DataError
from knltrain.vectors import FloatArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Images that go through the network together, float32 (n,H,W,C), and their labels.

    The step's random decisions (dropout) are drawn from `key`, uint64 (1,).
    """

    images_nhwc: FloatArray
    labels: LabelArray
    key: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1, np.uint64))

    @classmethod
    def allocate(
        cls, images: int, image_shape: tuple[int, ...], label_shape: tuple[int, ...] = ()
    ) -> Batch:
        """Memory for `images` images of shape (H,W,C); the caller's thread touches all of it.

        Labels of shape () are classes, those of shape (classes,) targets.
        """
        shape = (images, *label_shape)
        labels = np.empty(shape, np.float32) if label_shape else np.empty(shape, np.int64)
        batch = cls(np.empty((images, *image_shape), np.float32), labels)
        batch.images_nhwc.fill(0)
        batch.labels.fill(0)
        return batch


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """One half of a data set: normalised images float32 (N,H,W,C), and their labels.

    Raises DataError when the two arrays have different numbers of images, and for labels that are
    neither int64 (N,) nor float32 (N, classes).
    """

    images_nhwc: FloatArray
    labels: LabelArray

    def __post_init__(self) -> None:
        count = self.images_nhwc.shape[:1]
        if self.images_nhwc.ndim != 4 or self.labels.shape[:1] != count or self.labels.ndim > 2:
            raise DataError(
                f"images {self.images_nhwc.shape} and labels {self.labels.shape} do not fit: "
                "expected (N, H, W, C), and (N,) or (N, classes)"
            )
        expected = np.int64 if self.labels.ndim == 1 else np.float32
        if self.labels.dtype != expected:
            raise DataError(
                f"labels {self.labels.shape} are {self.labels.dtype}: expected classes (N,) as "
                "int64, or targets (N, classes) as float32"
            )

        if not len(self):
            raise DataError("there are no images: expected at least one")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of every image."""
        _, height, width, channels = self.images_nhwc.shape
        return height, width, channels

    @property
    def label_shape(self) -> tuple[int, ...]:
        """That of a label: () of a class, (classes,) of targets."""
        return self.labels.shape[1:]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A run's training and test images; `description` says where they came from.

    `notes` warn the user before training. Raises DataError where images for training and for
    testing differ in shape, or their labels do.
    """

    name: str
    train: LabelledImages
    test: LabelledImages
    classes: int
    description: str = ""
    contents: DataContents | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.train.image_shape != self.test.image_shape:
            raise DataError(
                f"{self.name}: images for training have (H, W, C) = {self.train.image_shape}, "
                f"those for testing {self.test.image_shape}: expected the same"
            )
        shapes = self.train.label_shape, self.test.label_shape
        if shapes[0] != shapes[1] or shapes[0] not in ((), (self.classes,)):
            raise DataError(
                f"{self.name}: labels for training have shape {shapes[0]}, those for testing "
                f"{shapes[1]}: expected () of both, classes, or ({self.classes},), their targets"
            )


def check_labels(labels: npt.NDArray[np.integer], classes: int, source: str) -> None:
    """Refuse labels outside 0..classes-1: DataError with the file, the index and the label."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        index = int(wrong[0])
        raise DataError(
            f"{source}: label {int(labels[index])} at index {index} is out of range: "
            f"expected 0 to {classes - 1} ({wrong.size} of {labels.size} labels are wrong)"
        )


def first_images(
    images: npt.NDArray[np.generic], wanted: int | None, key: str, source: str
) -> slice:
    """Slice of the first `wanted` images (None: all); DataError when there are fewer."""
    if wanted is not None and wanted > len(images):
        raise DataError(
            f"{key} = {wanted}, but {source} holds {len(images)}: ask for {len(images)} or fewer"
        )
    return slice(0, len(images) if wanted is None else wanted)


def standardised(train: FloatArray, test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shift and scale both halves, in place, so that `train` has mean 0 and deviation 1.

    Mean and deviation are taken over all pixels of `train` in float64, a few images at a time:
    every worker holds the whole data set, and a copy in float64 would be twice as large as that.
    """
    mean = train.mean(dtype=np.float64)
    squares = sum(_squares(part, mean) for part in _parts(train))
    deviation = np.sqrt(squares / train.size)
    if deviation == 0:
        raise DataError(f"all pixels of the training images are {mean}: nothing to learn from")
    for images in (train, test):
        # With float64 scalars NumPy 2 would compute in float64, NumPy 1 in float32.
        images -= np.float32(mean)
        images /= np.float32(deviation)
    return train, test


def _parts(images: FloatArray) -> Iterator[FloatArray]:
    return (images[start : start + 256] for start in range(0, len(images), 256))


def _squares(images: FloatArray, mean: np.float64) -> float:
    """Sum of the squared distances from `mean`, in float64."""
    distances = np.subtract(images, mean, dtype=np.float64).ravel()
    return float(distances @ distances)
