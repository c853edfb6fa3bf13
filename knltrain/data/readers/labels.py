"""Labels as files have them become classes from 0 or targets, or are refused with what is wrong."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from knltrain.data.source import LabelArray
from knltrain.errors import DataError

MOST_CLASSES: Final = 2**20
"""A larger label is no class."""


def as_labels(values: npt.NDArray[Any], where: str, first_label: int = 0) -> LabelArray:
    """Classes int64 (N,) from whole numbers (N,) or (N,1); targets float32 (N,classes) as they are.

    `first_label` is the number of the first class in the files. Raises DataError, with the index,
    for what is neither.
    """
    if values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "buif":
        wrong = ~np.isfinite(values).all(axis=1)
        if wrong.any():
            index = int(wrong.argmax())
            raise DataError(
                f"{where}: targets at index {index} are {values[index].tolist()}: expected finite "
                f"numbers ({int(wrong.sum())} of {len(values)} are wrong)"
            )
        return np.ascontiguousarray(values, np.float32)
    if values.ndim not in (1, 2) or values.dtype.kind not in "buif":
        raise DataError(
            f"{where}: labels have shape {values.shape} and type {values.dtype}: expected a whole "
            "number for each image, or a target for each of its classes"
        )
    flat = values.reshape(len(values))
    labels: npt.NDArray[np.int64]
    with np.errstate(invalid="ignore"):  # of NaN, which is refused
        labels = flat.astype(np.int64) - first_label
        wrong = (labels + first_label != flat) | (labels < 0) | (labels >= MOST_CLASSES)
    if wrong.any():
        index = int(wrong.argmax())
        raise DataError(
            f"{where}: label {flat[index]} at index {index} is no class: expected whole numbers "
            f"from data.first_label = {first_label} ({int(wrong.sum())} of {len(flat)} are wrong)"
        )
    return labels


def classes_of(*halves: LabelArray) -> int:
    """The number of classes of labels whose files name none."""
    return max(
        each.shape[1] if each.ndim == 2 else int(each.max(initial=-1)) + 1 for each in halves
    )


def class_counts(labels: LabelArray, classes: int) -> npt.NDArray[np.int64]:
    """Images of each class, (classes,); of targets those that are more likely of it than not."""
    if labels.ndim == 2:
        return np.asarray(np.count_nonzero(labels > 0.5, axis=0), np.int64)
    counts: npt.NDArray[np.int64] = np.bincount(labels.astype(np.int64), minlength=classes)
    return counts
