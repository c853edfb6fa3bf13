"""Tar shards by webdataset's conventions: pictures and labels, read in any order."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.readers.braces import expanded
from knltrain.data.readers.classes import classes_by_name, mixed_labels
from knltrain.data.readers.encoded_half import digest_of, encoded_half
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.index import SETTLED_SECONDS, Arrays, load_index, save_index
from knltrain.data.readers.open_files import OpenFiles
from knltrain.data.readers.tar_scan import LABELS, ShardScan
from knltrain.data.readers.texts import Texts
from knltrain.data.source import Rows
from knltrain.errors import DataError
from knltrain.files.durable import reason_of
from knltrain.files.read_ahead import read_ahead

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("*train*.tar",),
    "test": ("*test*.tar", "*val*.tar"),
}


def open_tar(files: DataFiles, half: HalfName) -> EncodedSource | None:
    """The pictures of a half; None if there are no shards for testing.

    Labels are numbers, or names of classes; without a file of names these are the ones of the
    training half, sorted. Where no sample has a label, the folders in the shards are classes.
    Raises DataError for shards that are damaged, and for samples without a label.
    """
    files = replace(files, train=_all_expanded(files.train), test=_all_expanded(files.test))
    found = TarPictures.of(files, half)
    if found is None:
        return None

    def training() -> list[str]:
        train = found if half == "train" else TarPictures.of(files, "train")
        assert train is not None
        return train.labels()[0]

    texts, codes = found.labels()
    labels, names = classes_by_name(files, texts, codes, training, found.name)
    source = encoded_half(found, labels, names, files, found.listed())
    source.notes = (*found.notes, *mixed_labels(texts, codes, found.name))
    return source


@final
class TarPictures(EncodedPictures):
    """Pictures in `shards`, of which `arrays` say where each lies."""

    def __init__(self, shards: list[Path], sizes: list[int], arrays: Arrays) -> None:
        self._open = OpenFiles(shards, sizes)
        self._shards = shards
        self._arrays = arrays
        self._names = Texts(arrays["names_content"], arrays["names_ends"])
        notes = Texts(arrays["notes_content"], arrays["notes_ends"])
        self.notes = tuple(notes[number] for number in range(len(notes)))

    @classmethod
    def of(cls, files: DataFiles, half: HalfName) -> TarPictures | None:
        """The pictures of a half as found now, or remembered of the same shards."""
        shards = files.of_half(half, NAMES)
        if not shards:
            return None
        begin = time.time()
        try:
            states = [shard.stat() for shard in shards]
        except OSError as error:
            raise DataError(f"{error.filename}: cannot be read ({reason_of(error)})") from error
        sizes = [state.st_size for state in states]
        times = [state.st_mtime_ns for state in states]
        key = f"tar {[str(shard.absolute()) for shard in shards]} {sizes} {times}"
        arrays = load_index(key)
        if arrays is None:
            arrays = _arrays(ShardScan.of(shard) for shard in shards)
            if begin - max(times) / 1e9 > SETTLED_SECONDS:
                save_index(key, arrays)
        if not len(arrays["sizes"]):
            raise DataError(
                f"{shards[0]}: holds no pictures: expected samples as 001.jpg and 001.cls, whose "
                "names have no other dot"
            )
        return cls(shards, sizes, arrays)

    def data(self, row: int) -> bytes:
        """The member's bytes; DataError where its shard is gone or another one."""
        numbers = (self._arrays[name][row] for name in ("shards", "offsets", "sizes"))
        return self._open.read(*map(int, numbers))

    def read_ahead(self, rows: Rows) -> None:
        """Of each shard all from the first to the last."""
        shards, offsets, sizes = (
            self._arrays[each][rows] for each in ("shards", "offsets", "sizes")
        )
        for shard in np.unique(shards).tolist():
            begins = offsets[shards == shard]
            end = int((begins + sizes[shards == shard]).max())
            read_ahead(self._shards[shard], int(begins.min()), end - int(begins.min()))

    def name(self, row: int) -> str:
        """Its shard and its name there."""
        return f"{self._shards[self._arrays['shards'][row]]}: {self._names[row]}"

    def listed(self) -> bytes:
        """A digest of the names and sizes."""
        return digest_of(self._names.content, self._names.ends, self._arrays["sizes"])

    def labels(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """The labels as they are written, all different, and int64 (n,) of them."""
        texts = Texts(self._arrays["labels_content"], self._arrays["labels_ends"])
        found, codes = [texts[number] for number in range(len(texts))], self._arrays["codes"]
        if "" not in found:
            return found, codes
        if len(found) == 1:
            return self._folders()
        lacking = self.name(int(np.argmax(codes == found.index(""))))
        raise DataError(
            f"{lacking}: has no label: expected a file of the same name that ends in "
            f".{', .'.join(LABELS)}, as other samples have"
        )

    def _folders(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """The folders of pictures as labels."""
        known: dict[str, int] = {}
        codes = np.empty(len(self._names), np.int64)
        for row in range(len(codes)):
            folder = PurePosixPath(self._names[row]).parent.name
            codes[row] = known.setdefault(folder, len(known))
        if "" in known:
            first = self.name(int(np.argmax(codes == known[""])))
            raise DataError(
                f"{first}: has no label: expected a file of the same name that ends in "
                f".{', .'.join(LABELS)}, or a folder for each class"
            )
        return list(known), codes


def _all_expanded(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for pattern in patterns for name in expanded(pattern))


def _arrays(scans: Iterable[ShardScan]) -> Arrays:
    names: list[str] = []
    numbers: list[tuple[int, int, int, int]] = []
    labels: dict[str, int] = {}
    notes: list[str] = []
    for shard, scan in enumerate(scans):
        for sample in scan.samples:
            names.append(sample.name)
            code = labels.setdefault(sample.label, len(labels))
            numbers.append((shard, sample.offset, sample.size, code))
        if scan.left_out:
            notes.append(
                f"{scan.path}: {len(scan.left_out):,} members are no files of a sample with a "
                f"picture and left out, such as {scan.left_out[0]}"
            )
        if not scan.has_end:
            notes.append(f"{scan.path}: has no mark at its end: some of it may be missing")
    columns = np.array(numbers, np.int64).reshape(-1, 4).T.copy()
    found = dict(zip(("shards", "offsets", "sizes", "codes"), columns, strict=True))
    for name, texts in (("names", names), ("labels", labels), ("notes", notes)):
        kept = Texts.of(texts)
        found |= {f"{name}_content": kept.content, f"{name}_ends": kept.ends}
    return found
