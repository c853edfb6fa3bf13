"""List files as Caffe reads them: on each line the path of a picture, and its label."""

from __future__ import annotations

import os
import time
from pathlib import Path
from stat import S_ISREG
from typing import Final, final

import numpy as np

from knltrain.data.encoded import EncodedSource
from knltrain.data.readers.classes import classes_by_name, mixed_labels
from knltrain.data.readers.encoded_half import encoded_half
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.index import SETTLED_SECONDS, Arrays, load_index, save_index
from knltrain.data.readers.picture_files import SUFFIXES, PictureFiles
from knltrain.data.readers.texts import Texts
from knltrain.data.readers.within import Within
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("train.txt",),
    "test": ("test.txt", "val.txt"),
}
_EXPECTED: Final = "expected a picture's path and its label, as in cats/001.jpg 0"


def open_list(files: DataFiles, half: HalfName) -> EncodedSource | None:
    """The pictures of a half; None if there is no list for testing.

    Paths are relative to `data.root`, and lie below it unless `data.follow_links`. Labels are
    numbers, or names of classes; without a file of names these are the ones of the training half,
    sorted. Raises DataError for lines without a label, and for pictures that are not there.
    """
    found = _Listed.of(files, half)
    if found is None:
        return None

    def training() -> list[str]:
        train = found if half == "train" else _Listed.of(files, "train")
        assert train is not None
        return train.labels

    labels, names = classes_by_name(files, found.labels, found.codes, training, found.place)
    source = encoded_half(found.pictures, labels, names, files, found.pictures.listed())
    source.notes = mixed_labels(found.labels, found.codes, found.place)
    return source


@final
class _Listed:
    """What the lists of a half hold."""

    def __init__(self, root: Path, paths: list[Path], arrays: Arrays) -> None:
        names = Texts(arrays["names_content"], arrays["names_ends"])
        texts = Texts(arrays["labels_content"], arrays["labels_ends"])
        self.pictures = PictureFiles(root, names, arrays["sizes"], list_file=paths[0])
        self.labels = [texts[number] for number in range(len(texts))]
        self.codes = arrays["codes"]
        self._paths = paths
        self._lines = arrays["lines"]

    @classmethod
    def of(cls, files: DataFiles, half: HalfName) -> _Listed | None:
        """As listed now, or remembered from a start with the same lists."""
        paths = files.of_half(half, NAMES)
        if not paths:
            return None
        begin = time.time()
        try:
            states = [path.stat() for path in paths]
        except OSError as error:
            raise _unreadable(paths[0], error) from error
        state = [
            (str(path), one.st_size, one.st_mtime_ns)
            for path, one in zip(paths, states, strict=True)
        ]
        key = f"list {files.root.absolute()} {state} {files.follow_links}"
        known = load_index(key)
        if known is not None:
            found = cls(files.root, paths, known)
            if found.pictures.still_there():
                return found
        arrays = _read(files, paths)
        if begin - max(one.st_mtime for one in states) > SETTLED_SECONDS:
            save_index(key, arrays)
        return cls(files.root, paths, arrays)

    def place(self, row: int) -> str:
        """The list and line of picture `row`."""
        number, line = self._lines[row].tolist()
        return f"{self._paths[number]}, line {line}"


def _read(files: DataFiles, paths: list[Path]) -> Arrays:
    root, within = files.root, Within(files.root)
    names: list[str] = []
    codes: list[int] = []
    lines: list[tuple[int, int]] = []
    labels: dict[str, int] = {}
    known: dict[str, int] = {}
    for number, path in enumerate(paths):
        for line, text in enumerate(_lines(path), 1):
            name, label = _parted(text, f"{path}, line {line}")
            if not (files.follow_links or within.has(name)):
                raise DataError(
                    f"{path}, line {line}: '{name}' leads out of data.root = '{root}': expected "
                    "paths below it, and links that stay there; set data.root to a folder above, "
                    "or data.follow_links = true to follow all"
                )
            code = labels.setdefault(label, len(labels))
            if known.setdefault(name, code) != code:
                raise DataError(
                    f"{path}, line {line}: '{name}' has label {label}, and another one above: "
                    "expected one label for each picture"
                )
            names.append(name)
            codes.append(code)
            lines.append((number, line))
    if not names:
        raise DataError(f"{paths[0]}: is empty: {_EXPECTED}, on each line")
    sizes = [_size(root / name) for name in names]
    if -1 in sizes:
        row = sizes.index(-1)
        number, line = lines[row]
        raise DataError(
            f"{paths[number]}, line {line}: {root / names[row]} is no file ({sizes.count(-1):,} "
            f"of {len(sizes):,} are none): expected paths below data.root = '{root}'"
        )
    kept, texts = Texts.of(names), Texts.of(labels)
    return {
        "names_content": kept.content,
        "names_ends": kept.ends,
        "labels_content": texts.content,
        "labels_ends": texts.ends,
        "codes": np.array(codes, np.int64),
        "lines": np.array(lines, np.int64),
        "sizes": np.array(sizes, np.int64),
    }


def _lines(path: Path) -> list[str]:
    """Lines that are not empty at the end; names that are no UTF-8 are kept."""
    try:
        text = os.fsdecode(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from error
    return text.removeprefix("\ufeff").rstrip().split("\n") if text.strip() else []


def _parted(text: str, place: str) -> tuple[str, str]:
    """Path and label of a line: spaces belong to the path, but for the last."""
    parts = text.strip().rsplit(maxsplit=1)
    if len(parts) < 2 or Path(parts[1]).suffix.lower() in SUFFIXES:
        begin = text.strip()[:100]
        raise DataError(f"{place}: '{begin}' has no label after a space: {_EXPECTED}")
    return parts[0], parts[1]


def _size(path: Path) -> int:
    """Bytes of a file; -1 if there is none, or it is something else, such as a folder."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return -1
    return state.st_size if S_ISREG(state.st_mode) else -1


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path}: cannot be read ({reason_of(error)}): {_EXPECTED}, on each line; set data.train "
        "and data.test to lists below data.root"
    )
