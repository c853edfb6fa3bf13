"""Finds the files of MNIST in a folder, and tells whether its training half is complete."""

from __future__ import annotations

import errno
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from knltrain.data.idx import begins_as_idx, read_shape
from knltrain.errors import DataError

T10K_ALONE: Final = "mnist-t10k"
"""What the data set is called that is made of the test half."""

_TRAINING = re.compile(r"(?<![a-z])(train(?!e[dr])|trn)|(?<!\d)60k|train.*(image|label|idx|ubyte)")
_TESTING = re.compile(r"(?<![a-z])test|(?<!\d)10k")
_OF_MNIST = re.compile(r"image|label|idx|ubyte")
_IDX = re.compile(r"idx|ubyte")
_NO_DATA = frozenset(
    {
        *(".cfg", ".html", ".ipynb", ".json", ".log", ".md", ".pdf", ".png", ".py", ".rst"),
        *(".sh", ".toml", ".txt", ".yaml", ".yml"),
    }
)


@dataclass(frozen=True, slots=True)
class HalfFiles:
    """The two files of one half; whether they are idx files is not checked yet."""

    images: Path
    labels: Path

    def shape(self) -> tuple[int, int, int]:
        """(N,H,W) as the headers have it; DataError where they are not of one half of MNIST."""
        count, height, width = _shape(self.images, 3, "images")
        (labels,) = _shape(self.labels, 1, "labels")
        if count != labels:
            raise DataError(
                f"{self.images} holds {count} images, but {self.labels} {labels} labels: "
                "take both from the same half of MNIST"
            )
        return count, height, width


def t10k_half(root: Path) -> HalfFiles:
    """The files of the t10k half; if missing, DataError that lists the folder's content."""
    return HalfFiles(*(_required(root, name) for name in _names("t10k")))


def training_half(root: Path) -> HalfFiles | None:
    """The files of the training half; None if all are missing, or all but the labels.

    Raises DataError if the half exists in a form that is not read: a dangling link, a folder,
    another spelling, a subfolder, or images without labels. Training on the test half instead would
    be a silent mistake then.
    """
    names = _names("train")
    images, labels = (_find(root, name) for name in names)
    if images is not None and labels is not None:
        return HalfFiles(images, labels)
    there = _signs_of_training(root)
    if there and there != [labels and labels.name]:
        raise DataError(
            f"{root}: expected {' and '.join(f'{name}[.gz]' for name in names)}, found "
            f"{', '.join(_described(root, name) for name in there)}: rename them or fetch what is "
            f"missing, or set data.name = '{T10K_ALONE}' to learn from a part of the test half"
        )
    return None


def _names(half: str) -> tuple[str, str]:
    return f"{half}-images-idx3-ubyte", f"{half}-labels-idx1-ubyte"


def _signs_of_training(root: Path) -> list[str]:
    """Files here or in a subfolder that may be of the training half, by name or content."""
    found = []
    for name in _listed(root):
        path = root / name
        if _is_of_training(name) or _is_of_no_known_half(path):
            found.append(name)
        else:
            found += [f"{name}/{each}" for each in _images_or_labels_of_training(path)]
    return found


def _is_of_training(name: str) -> bool:
    folded = name.casefold()
    if not _TRAINING.search(folded):
        return False
    return Path(folded).suffix not in _NO_DATA or bool(_IDX.search(folded))


def _is_of_no_known_half(path: Path) -> bool:
    return not _TESTING.search(path.name.casefold()) and _is_idx(path)


def _is_idx(path: Path) -> bool:
    """Whether it is an idx file; False if it may not be read."""
    try:
        return _is_file(path) and begins_as_idx(path)
    except DataError:
        return False


def _images_or_labels_of_training(folder: Path) -> list[str]:
    """Of these, only images or labels: a folder may hold anything, such as logs of trainings."""
    try:
        names = _listed(folder)
    except DataError:  # no folder, or not for this user
        return []
    return [
        name
        for name in filter(_is_of_training, names)
        if _OF_MNIST.search(name.casefold()) or _is_idx(folder / name)
    ]


def _find(root: Path, name: str) -> Path | None:
    return next((path for path in (root / name, root / f"{name}.gz") if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    """As `Path.is_file`, but False where access is denied."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise _unreadable(path, error) from error


def _required(root: Path, name: str) -> Path:
    path = _find(root, name)
    if path is None:
        there = ", ".join(_described(root, each) for each in _listed(root))
        raise DataError(
            f"{root / name}[.gz] is missing (the folder holds {there or 'nothing'}): "
            "set data.root to a folder with MNIST's idx files"
        )
    return path


def _listed(root: Path) -> list[str]:
    try:
        return sorted(path.name for path in root.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(root, error) from error


def _described(root: Path, name: str) -> str:
    path = root / name
    if path.is_symlink() and not path.exists():
        return f"{name} (a link to {path.readlink()}, which is not there)"
    return f"{name} (a folder)" if path.is_dir() else name


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path}: cannot be read ({error.strerror}): data.root must be a folder that this user may "
        "list and enter"
    )


def _shape(path: Path, dimensions: int, what: str) -> tuple[int, ...]:
    shape = read_shape(path)
    if len(shape) != dimensions:
        raise DataError(f"{path}: has {len(shape)} dimensions, expected {dimensions}")
    if 0 in shape:
        raise DataError(
            f"{path}: its header {shape} tells of no {what if shape[0] == 0 else 'pixels'}: "
            "fetch it again"
        )
    return shape
