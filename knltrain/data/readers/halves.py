"""Both halves of a data set from the reader of its format, checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import Halves, check_labels, numbered
from knltrain.data.readers.files import HALVES, DataFiles, HalfName
from knltrain.data.readers.labels import class_counts, classes_of
from knltrain.data.source import ImageSource, LabelArray
from knltrain.errors import DataError

OpenHalf: TypeAlias = Callable[[DataFiles, HalfName], ImageSource | None]
"""A reader: it opens the files of a half. None: there are no files for testing.

A source whose files name no classes has `class_names` ()."""

_MOST_NAMED: Final = 5
"""Classes that a message names."""


def open_halves(
    name: str,
    open_half: OpenHalf,
    files: DataFiles,
    train_images: int | None = None,
    test_images: int | None = None,
) -> Halves:
    """The two halves by `open_half`, or one that is split by `files.test_share`.

    `train_images`, `test_images` keep the first of each. Raises DataError where a half is missing,
    or they do not fit together.
    """
    train = open_half(files, "train")
    assert train is not None
    test = None if files.test_share else open_half(files, "test")
    unused = _test_half_left_alone(open_half, files) if files.test_share else ()
    _name_classes(name, [each for each in (train, test) if each is not None], files)
    told = (*train.notes, *(() if test is None else test.notes))
    if files.test_share:
        train, test = _split(train, files.test_share)
    if test is None:
        raise DataError(
            f"data.name = '{name}': there are no files for test images in {files.root}: name them "
            "by data.test, or set data.test_share = 0.1 to test on a tenth of the training images"
        )
    kept = (
        first_of(name, "train", train, train_images),
        first_of(name, "test", test, test_images),
    )
    description = f"{name} from {files.root}"
    return Halves(name, *kept, description, (*told, *unused, *_notes(*kept, files)))


def _test_half_left_alone(open_half: OpenHalf, files: DataFiles) -> tuple[str, ...]:
    """That there are test images beside those that are split off; nothing where there are none."""
    try:
        test = open_half(files, "test")
    except DataError:  # what is not used need not be whole
        return ()
    if test is None:
        return ()
    return (
        f"data.test_share = {files.test_share:g}: the {len(test):,} images for testing in "
        f"{files.root} are not used; leave it out to test on them",
    )


def _name_classes(name: str, sources: Sequence[ImageSource], files: DataFiles) -> None:
    """Gives all the same names, and refuses labels that have none."""
    named = [source for source in sources if source.class_names]
    count = max(classes_of(*(source.labels for source in sources)), 2)
    given = files.class_names()
    names = named[0].class_names if named else given or numbered(count)
    for source in named:
        if source.class_names != names:
            raise DataError(
                f"{name}: the halves name their classes differently: {_told(names)} for training, "
                f"{_told(source.class_names)} for testing: expected the same in the same order"
            )
    if files.class_names_file:
        names = given
    for source in sources:
        source.class_names = names
        _check_labels(name, source, files)


def _check_labels(name: str, source: ImageSource, files: DataFiles) -> None:
    classes, labels = len(source.class_names), source.labels
    if labels.ndim == 2:
        if labels.shape[1] != classes:
            raise DataError(
                f"{name}: {labels.shape[1]} targets an image, but {classes} class names"
            )
        return
    if labels.max() == classes and labels.min() > 0:
        raise DataError(
            f"{source.picture_name(0)}: labels count from 1 to {classes}, the number of classes: "
            f"set data.first_label = {files.first_label + 1}"
        )
    wrong = (labels < 0) | (labels >= classes)
    check_labels(labels.astype(np.int64), classes, source.picture_name(int(wrong.argmax())))


def _split(source: ImageSource, share: float) -> tuple[ImageSource, ImageSource]:
    """Training and test pictures: `share` of each class for testing, at equal distances."""
    places = _numbers_in_class(source.labels)
    is_test = np.floor((places + 1) * share) > np.floor(places * share)
    if is_test.all() or not is_test.any():
        raise DataError(
            f"data.test_share = {share:g}: {int(is_test.sum()):,} of {len(source):,} images would "
            "be for testing: expected some for each half; take another share"
        )
    train, test = (np.flatnonzero(rows).astype(np.int64) for rows in (~is_test, is_test))
    return source.chosen(train), source.chosen(test)


def _numbers_in_class(labels: LabelArray) -> npt.NDArray[np.int64]:
    """How many images of the same class come before each; of targets, how many images."""
    if labels.ndim == 2:
        return np.arange(len(labels))
    order = np.argsort(labels, kind="stable")
    begins = np.searchsorted(labels[order], labels[order])
    places = np.empty(len(labels), np.int64)
    places[order] = np.arange(len(labels)) - begins
    return places


def first_of(name: str, half: HalfName, source: ImageSource, wanted: int | None) -> ImageSource:
    """The first `wanted` pictures of a half (None: all); DataError when there are fewer."""
    if wanted is None or wanted == len(source):
        return source
    if wanted > len(source):
        raise DataError(
            f"data.{half}_images = {wanted:,}, but {name} holds {len(source):,} {HALVES[half]} "
            f"images: ask for {len(source):,} or fewer"
        )
    return source.chosen(np.arange(wanted))


def _notes(train: ImageSource, test: ImageSource, files: DataFiles) -> Iterator[str]:
    names = train.class_names
    if train.contents() == test.contents():
        yield "training and test images are the same: they tell nothing of how others are found"
    counts = class_counts(train.labels, len(names))
    in_all = counts + class_counts(test.labels, len(names))
    if names[0] == "0" and train.labels.ndim == 1 and not in_all[0] and in_all[1:].all():
        yield (
            f"no image has label {files.first_label}, all others up to {len(names) - 1}: if labels "
            f"count from 1, set data.first_label = {files.first_label + 1}"
        )
        return
    for half, source in (("training", train), ("test", test)):
        empty = np.flatnonzero(class_counts(source.labels, len(names)) == 0).tolist()
        if empty:
            told = _told([names[each] for each in empty])
            yield f"there are no {half} images of {len(empty):,} of {len(names):,} classes: {told}"


def _told(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(repr, names[:_MOST_NAMED])) + more
