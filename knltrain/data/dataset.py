"""Labelled images in memory, and the batches that training and evaluation are fed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import DataContents
from knltrain.data.preprocessing import Draws, Preprocessing
from knltrain.data.source import ImageSource, LabelArray, Rows
from knltrain.errors import DataError
from knltrain.vectors import FloatArray
from vectorized_ops.layout import aligned_zeros

if TYPE_CHECKING:
    from knltrain.data.augmentation.mixing import Mixing


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
        batch = cls(aligned_zeros((images, *image_shape)), labels)
        batch.images_nhwc.fill(0)
        batch.labels.fill(0)
        return batch

    def first(self, images: int) -> Batch:
        """The first so many images, in the same memory."""
        return Batch(self.images_nhwc[:images], self.labels[:images], self.key)


@final
@dataclass(frozen=True, slots=True)
class LabelledImages:
    """One half of a data set as a network takes it: pictures of a source, preprocessed.

    With `mixing` images of training are mixed, and their labels are targets. `block_images`: for
    training, blocks of so many pictures are shuffled (`knltrain.data.blocks`).
    """

    source: ImageSource
    preprocessing: Preprocessing
    mixing: Mixing | None = None
    block_images: int | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def labels(self) -> LabelArray:
        """Of all images."""
        return self.source.labels

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of every image."""
        return self.preprocessing.image_shape

    @property
    def label_shape(self) -> tuple[int, ...]:
        """That of a label: () of a class, (classes,) of targets."""
        if self.mixing is not None:
            return (len(self.source.class_names),)
        return self.source.labels.shape[1:]

    @property
    def are_copies(self) -> bool:
        """Whether all are known to be their pictures, moved and flipped at most, normalised."""
        return self.preprocessing.copies(self.source)

    def rows_read(self, rows: Rows, draws: Draws) -> Rows:
        """The pictures that `write` reads for images `rows`: they, and what they are mixed with."""
        if self.mixing is None:
            return rows
        return np.concatenate((rows, self.mixing.partners(rows, draws, len(self))))

    def write(self, rows: Rows, out: Batch, draws: Draws | None = None) -> None:
        """Write the images `rows` (n,) and their labels to `out`, of n images.

        Without `draws` nothing is random. Raises BrokenPicture.
        """
        if self.mixing is not None and draws is not None:
            given = self.source, self.preprocessing, rows, draws
            self.mixing.write(*given, out.images_nhwc, np.asarray(out.labels, np.float32))
            return
        # mode="clip" writes straight into `out`; the default would go through a buffer.
        np.take(self.source.labels, rows, axis=0, out=out.labels, mode="clip")
        self.preprocessing.write(self.source, rows, draws, out.images_nhwc)


@dataclass(frozen=True, slots=True)
class Halves:
    """The two halves of a data set as a reader finds them; `description` says where they came from.

    `notes` warn the user before training. Raises DataError where the halves do not fit together.
    """

    name: str
    train: ImageSource
    test: ImageSource
    description: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        train, test = self.train, self.test
        for what, one, other in (
            ("class names", train.class_names, test.class_names),
            ("image shape (H, W, C)", train.image_shape, test.image_shape),
            ("channels", train.channels, test.channels),
            ("label shape", train.labels.shape[1:], test.labels.shape[1:]),
        ):
            if one != other:
                raise DataError(
                    f"{self.name}: {what} of the training half: {one}, of the test half: {other}; "
                    "expected the same"
                )

    @property
    def contents(self) -> DataContents:
        """What tells this data set from another one."""
        return DataContents(self.name, self.train.contents(), self.test.contents())


@dataclass(frozen=True, slots=True)
class Dataset:
    """A run's training and test images; `description` says where they came from.

    `notes` warn the user before training. `test_crops` are several images of each test picture,
    where it is to be evaluated by them.
    """

    name: str
    train: LabelledImages
    test: LabelledImages
    description: str = ""
    contents: DataContents | None = None
    notes: tuple[str, ...] = ()
    test_crops: tuple[LabelledImages, ...] = ()

    @classmethod
    def of(
        cls, halves: Halves, preprocessing: Preprocessing, mixing: Mixing | None = None
    ) -> Dataset:
        """Both halves, preprocessed alike; those for training mixed."""
        train = LabelledImages(halves.train, preprocessing, mixing)
        test = LabelledImages(halves.test, preprocessing)
        return cls(halves.name, train, test, halves.description, halves.contents, halves.notes)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.train.source.class_names)


def numbered(classes: int) -> tuple[str, ...]:
    """Names of classes that have none: "0", "1", ..."""
    return tuple(map(str, range(classes)))


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
