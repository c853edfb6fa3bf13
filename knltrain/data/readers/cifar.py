"""CIFAR-10 and CIFAR-100, in their binary version and that of Python's pickles.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. Pictures are 32x32,
red plane first. Binary records are a label (two in CIFAR-100: coarse, fine) and 3,072 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from knltrain.data.mapped import map_array
from knltrain.data.readers.array_pickle import read_array_pickle
from knltrain.data.readers.arrays import array_source
from knltrain.data.readers.files import HALVES, DataFiles, HalfName
from knltrain.data.readers.parts import joined
from knltrain.data.source import ImageSource, LabelArray, Pixels
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

_SHAPE: Final = (3, 32, 32)
_PIXELS: Final = 3 * 32 * 32
_PICKLE: Final = b"\x80"
"""A pickle's first byte; no label is so large."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How one of the two sets is laid out.

    `labels` are those of a binary record in their order, each with its number of classes.
    """

    folders: tuple[str, ...]
    names: dict[HalfName, tuple[str, ...]]
    labels: dict[str, int]
    label: str
    meta: tuple[str, ...]


_CIFAR10: Final = _Form(
    ("", "cifar-10-batches-bin/", "cifar-10-batches-py/"),
    {"train": ("data_batch_[1-9]*",), "test": ("test_batch*",)},
    {"labels": 10},
    "labels",
    ("batches.meta.txt", "batches.meta"),
)
_CIFAR100: Final = _Form(
    ("", "cifar-100-binary/", "cifar-100-python/"),
    {"train": ("train", "train.bin"), "test": ("test", "test.bin")},
    {"coarse_labels": 20, "fine_labels": 100},
    "fine_labels",
    ("{}_names.txt", "meta"),
)


def open_cifar10(files: DataFiles, half: HalfName) -> ImageSource | None:
    """A half of CIFAR-10; None if there are no files. Binary ones are mapped. Raises DataError."""
    return _opened(_CIFAR10, files, half)


def open_cifar100(files: DataFiles, half: HalfName) -> ImageSource | None:
    """A half of CIFAR-100, with its fine labels or those that `files.label` names."""
    return _opened(_CIFAR100, files, half)


def _opened(form: _Form, files: DataFiles, half: HalfName) -> ImageSource | None:
    names = {
        each: [folder + name for folder in form.folders for name in form.names[each]]
        for each in HALVES
    }
    paths = files.of_half(half, names)
    if not (files.train if half == "train" else files.test):  # several versions may be there
        paths = [path for path in paths if path.parent == paths[0].parent]
    label = files.label or form.label
    if label not in form.labels:
        raise DataError(f"data.label = '{label}': expected one of {', '.join(form.labels)}")
    if not paths:
        return None
    class_names = _class_names(form, paths[0].parent, label)
    classes = max(form.labels[label], len(class_names or files.class_names()))
    parts = []
    for path in paths:
        pixels, labels = _one_file(form, path, label)
        parts.append(
            array_source(
                pixels,
                labels,
                str(path),
                layout="nchw",
                class_names=class_names,
                first_label=files.first_label,
            )
        )
        _check_classes(path, parts[-1].labels, classes)
    return joined(parts)


def _check_classes(path: Path, labels: LabelArray, classes: int) -> None:
    """Refuse labels (n,) of more classes than such a file has: DataError."""
    wrong = labels >= classes
    if wrong.any():
        index = int(wrong.argmax())
        raise DataError(
            f"{path}: the label at index {index} is that of class {labels[index] + 1} "
            f"({int(wrong.sum()):,} of {len(labels):,} are so large): expected {classes} classes; "
            "it is damaged or another file; for classes of your own name them by data.class_names"
        )


def _one_file(form: _Form, path: Path, label: str) -> tuple[Pixels, npt.NDArray[Any]]:
    """Pictures (n,3,32,32) and labels (n,) of a file in either form."""
    try:
        with path.open("rb") as file:
            is_pickle = file.read(1) == _PICKLE
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason_of(error)})") from error
    if is_pickle:
        return _pickled(path, label)
    record = len(form.labels) + _PIXELS
    if not size or size % record:
        raise DataError(
            f"{path}: {size:,} bytes are no whole number of records of {record:,}: it is truncated "
            "or of another kind; fetch it again"
        )
    records = map_array(path, np.uint8, 0, (size // record, record))
    pixels = records[:, len(form.labels) :].reshape(-1, *_SHAPE)
    return pixels, np.asarray(records[:, list(form.labels).index(label)])


def _pickled(path: Path, label: str) -> tuple[Pixels, npt.NDArray[Any]]:
    found = read_array_pickle(path)
    data, labels = found.get("data"), found.get(label)
    if not isinstance(data, np.ndarray) or not isinstance(labels, list | np.ndarray):
        raise DataError(
            f"{path}: holds {', '.join(found) or 'nothing'}: expected data and {label}, as in "
            "CIFAR's version for Python"
        )
    if data.ndim != 2 or data.shape[1] != _PIXELS:
        raise DataError(f"{path}: data have shape {data.shape}: expected (N, {_PIXELS})")
    return data.reshape(-1, *_SHAPE), np.asarray(labels, None if _are_scalars(labels) else object)


def _are_scalars(values: list[Any] | npt.NDArray[Any]) -> bool:
    """Whether none of the values has values of its own, so that they make an array."""
    return not any(isinstance(each, list | tuple | dict | set) for each in values)


def _class_names(form: _Form, folder: Path, label: str) -> tuple[str, ...]:
    """Those of the file beside the pictures; none if there is no such file."""
    key = label.removesuffix("s")
    text, pickled = (folder / name.format(key) for name in form.meta)
    if text.is_file():
        lines = text.read_text(encoding="utf-8", errors="replace").splitlines()
        return tuple(line.strip() for line in lines if line.strip())
    if not pickled.is_file():
        return ()
    names = read_array_pickle(pickled).get(f"{key}_names", ())
    return tuple(map(str, names)) if isinstance(names, list) else ()
