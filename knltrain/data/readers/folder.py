"""Image folders: a folder for each class, with its pictures in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from knltrain.data.encoded import EncodedSource
from knltrain.data.readers.classes import classes_by_name
from knltrain.data.readers.encoded_half import encoded_half
from knltrain.data.readers.files import DataFiles, HalfName, check_folder
from knltrain.data.readers.folder_scan import EXPECTED, FolderScan, folders_in, scan_folder
from knltrain.errors import DataError

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("train", "training"),
    "test": ("test", "val", "valid", "validation"),
}
"""Folders of the halves below `data.root`; without any, the classes themselves lie there."""


def open_folder(files: DataFiles, half: HalfName) -> EncodedSource | None:
    """The pictures of a half; None if there is no folder for testing.

    Classes are the folders of the training half, sorted by the bytes of their names. Pictures of
    all classes take turns, so that the first ones are of all classes, too. Raises DataError.
    """
    folder = _folder(files, half)
    if folder is None:
        return None
    train = folder if half == "train" else _folder(files, "train")
    assert train is not None
    scan = _scan(files, folder)
    if half == "test":
        _check_apart(train, folder)
    elif len(scan.classes) == 1:
        raise DataError(
            f"{folder}: holds one class alone, '{scan.classes[0]}': {EXPECTED}, and two of them or "
            f"more; set data.root to another folder, or to {folder / scan.classes[0]} if the "
            "classes lie there"
        )
    labels, names = classes_by_name(
        files,
        scan.classes,
        scan.codes,
        lambda: scan.classes if half == "train" else _scan(files, train).classes,
        scan.class_folder,
        may_count=False,
    )
    turns = np.lexsort(
        (scan.codes, np.arange(len(labels)) - np.searchsorted(scan.codes, scan.codes))
    )
    pictures = scan.pictures.in_order(turns)
    found = encoded_half(pictures, labels[turns], names, files, scan.pictures.listed())
    found.notes = _notes(scan)
    return found


def _notes(scan: FolderScan) -> tuple[str, ...]:
    if not scan.skipped:
        return ()
    what = "file is" if scan.skipped == 1 else "files are"
    return (
        f"{scan.folder}: {scan.skipped:,} {what} left out, by name no picture or in the folder of "
        f"no class, such as {scan.example}",
    )


def _folder(files: DataFiles, half: HalfName) -> Path | None:
    check_folder(files.root)
    given = files.train if half == "train" else files.test
    if len(given) > 1:
        raise DataError(
            f"data.{half} = {list(given)}: expected one folder, which holds those of the classes"
        )
    if given:
        check_folder(files.root / given[0], f"data.{half}")
        return files.root / given[0]
    there = folders_in(files.root)
    named = [name for name in NAMES[half] if name in there]
    if len(named) > 1:
        raise DataError(
            f"{files.root}: holds folders {' and '.join(named)}: expected one of them; set "
            f"data.{half} = '{named[0]}' or '{named[1]}'"
        )
    if named:
        return files.root / named[0]
    if half == "test":
        return None
    return files.root


def _check_apart(train: Path, test: Path) -> None:
    """Refuse a half that lies in the other one: DataError."""
    one, other = train.resolve(), test.resolve()
    if one != other and (one.is_relative_to(other) or other.is_relative_to(one)):
        raise DataError(
            f"training images in {train} and test images in {test}: one of these folders lies in "
            "the other, and its pictures would be for training and for testing: expected two "
            "folders beside each other; name them by data.train and data.test"
        )


def _scan(files: DataFiles, folder: Path) -> FolderScan:
    return scan_folder(folder, files.root, files.follow_links)
