"""How good the model is on the test set, measured by all workers together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np
import numpy.typing as npt

from knltrain.backends.backend import Backend
from knltrain.backends.loss import classes_of, told_right
from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.source import LabelArray, Rows
from knltrain.errors import NonFiniteLoss
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.backends.crops import CropMeans

MOST_CONFUSED: Final = 100
"""Classes up to which a confusion matrix is made; for more only each class's right images count."""
NEAREST: Final = 5
"""An image is near if its class is among so many of the largest logits."""


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Test images by their class: all, and those whose class was found.

    Where an image may have several classes, all images count for each: those for which it was told
    right whether the class is there.

    `near` counts images whose class is among the five largest logits; None with no more classes.
    `confusion[c][k]` counts images of class c for which k was found; None with many classes.
    `names` are those of the classes; () where they are not known.
    """

    images: tuple[int, ...]
    right: tuple[int, ...]
    near: int | None
    confusion: tuple[tuple[int, ...], ...] | None
    names: tuple[str, ...] = ()

    @property
    def accuracies(self) -> tuple[float | None, ...]:
        """By class: the share of its images whose class was found; None of a class without any."""
        pairs = zip(self.right, self.images, strict=True)
        return tuple(right / images if images else None for right, images in pairs)

    @property
    def top5_accuracy(self) -> float | None:
        """The share of images that are near; None with no more classes."""
        return None if self.near is None else self.near / sum(self.images)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accuracy (0 to 1) and mean loss of one model over `images` test images."""

    accuracy: float
    loss: float
    images: int
    classes: ClassCounts | None = None


@final
class Evaluator:
    """Evaluates models on test images shared out over the workers.

    Worker r takes the images r, r + workers, r + 2 workers, ... in chunks of at most `batch`
    images, which the backend must have been compiled for. With unequal `shares` of a batch it takes
    the r-th part, as large a share of all images. `several` tells that labels are targets
    of images that may have several classes, or none. With `crops`, several images of each picture,
    their mean softmax is evaluated.
    """

    def __init__(
        self,
        images: LabelledImages,
        backend: Backend,
        team: Team,
        batch: int,
        classes: int,
        several: bool = False,
        crops: Sequence[LabelledImages] = (),
        shares: Sequence[int] | None = None,
    ) -> None:
        self._images = images
        self._rows = np.arange(team.rank, len(images), team.workers)
        if shares is not None and len(set(shares)) > 1:
            before, whole = sum(shares[: team.rank]), sum(shares)
            ends = (before * len(images) // whole, (before + shares[team.rank]) * len(images))
            self._rows = np.arange(ends[0], ends[1] // whole)
        self._several = several
        self._of_class = (
            (len(images),) * classes
            if several
            else tuple(np.bincount(classes_of(images.labels), minlength=classes).tolist())
        )
        self._backend = backend
        self._team = team
        self._chunk = Batch.allocate(batch, images.image_shape, images.label_shape)
        self._crops: CropMeans | None = None
        if crops:
            from knltrain.backends.crops import CropMeans

            self._crops = CropMeans(crops, backend, batch, classes)

    def evaluate(self, parameters: FloatArray, step: int, by_class: bool = False) -> Evaluation:
        """Evaluate the model after `step` steps, (n,) float32; every worker gets the same answer.

        Only if it is asked for, `classes` are counted, which takes some more time and memory.

        Collective: all workers call it after the same step. It returns only when every worker has
        read its last parameter, so an exchange that follows cannot change a model being evaluated.
        Raises `NonFiniteLoss` in every worker when the loss over all images is not finite.
        """
        correct, loss_sum = 0, 0.0
        counting = None
        if by_class:
            counting = _Counting(len(self._chunk.labels), len(self._of_class), self._several)
        for start in range(0, len(self._rows), len(self._chunk.labels)):
            self._team.check()
            batch, rows = self._part(start)
            logits = None if counting is None else counting.logits[: len(rows)]
            if self._crops is not None:
                loss, hits = self._crops.evaluate(rows, batch, parameters, logits)
            else:
                self._images.write(rows, batch)
                loss, hits = self._backend.evaluate(batch, parameters, logits)
            if counting is not None and logits is not None:
                counting.take(logits, batch.labels)
            correct, loss_sum = correct + hits, loss_sum + loss
        mine = np.array([correct, loss_sum, len(self._rows)], np.float64)
        all_correct, all_loss, images = self._team.all_sum(mine).tolist()
        if not math.isfinite(all_loss):
            raise NonFiniteLoss(step, self._first_non_finite(parameters))
        found = None if counting is None else self._classes(counting)
        return Evaluation(all_correct / images, all_loss / images, int(images), found)

    def _classes(self, counting: _Counting) -> ClassCounts:
        """The counts of all workers; whole numbers, which float64 adds up exactly."""
        near, *counts = map(int, self._team.all_sum(counting.counts))
        classes = len(self._of_class)
        known = near if classes > NEAREST and not self._several else None
        names = self._images.source.class_names
        if len(counts) == classes:
            return ClassCounts(self._of_class, tuple(counts), known, None, names)
        rows = tuple(tuple(counts[c * classes : (c + 1) * classes]) for c in range(classes))
        right = tuple(row[c] for c, row in enumerate(rows))
        return ClassCounts(self._of_class, right, known, rows, names)

    def _first_non_finite(self, parameters: FloatArray) -> str | None:
        """The layer to blame, if it is one of this worker's images that shows it."""
        for start in range(0, len(self._rows), len(self._chunk.labels)):
            batch, rows = self._part(start)
            self._images.write(rows, batch)
            layer = self._backend.first_non_finite(batch, parameters)
            if layer is not None:
                return layer
        return None

    def _part(self, start: int) -> tuple[Batch, Rows]:
        """Room for the images of this worker from number `start` on, and which they are."""
        rows = self._rows[start : start + len(self._chunk.labels)]
        return self._chunk.first(len(rows)), rows


@final
class _Counting:
    """One worker's counts while it evaluates: near images, then the confusion or right images."""

    def __init__(self, batch: int, classes: int, several: bool) -> None:
        self.logits = np.zeros((batch, classes), np.float32)
        self._several, self._is_confusion = several, classes <= MOST_CONFUSED and not several
        size = classes * classes if self._is_confusion else classes
        self.counts: npt.NDArray[np.float64] = np.zeros(1 + size, np.float64)

    def take(self, logits: FloatArray, labels: LabelArray) -> None:
        """Count images with logits (n, classes) and labels; of equal logits the first wins."""
        if self._several:
            self.counts[1:] += told_right(logits, labels).sum(axis=0)
            return
        labels = classes_of(labels)
        rows, classes = np.arange(len(labels)), logits.shape[1]
        own = logits[rows, labels][:, None]
        before = (logits > own) | ((logits == own) & (np.arange(classes) < labels[:, None]))
        place = before.sum(axis=1)
        self.counts[0] += np.count_nonzero(place < NEAREST)
        if self._is_confusion:
            counted = labels * classes + logits.argmax(axis=1)
        else:
            counted = labels[place == 0]
        self.counts[1:] += np.bincount(counted, minlength=len(self.counts) - 1)
