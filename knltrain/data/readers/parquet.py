"""Parquet files as Hugging Face's datasets writes them: pictures {bytes, path}, and labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, sampled
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.mapped import note_mapped
from knltrain.data.readers.classes import check_distinct, classes_by_name
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.labels import as_labels
from knltrain.data.readers.optional import optional
from knltrain.data.readers.row_groups import RowGroups
from knltrain.data.source import ImageSource, LabelArray
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("**/*train*.parquet", "**/train/*.parquet"),
    "test": ("**/*test*.parquet", "**/test/*.parquet"),
}
_OTHER_TEST: Final = ("**/*valid*.parquet", "**/validation/*.parquet")
"""Where there is no test half, or it has no labels, the validation half is to be named."""


@final
class ParquetPictures(EncodedPictures):
    """The encoded pictures of a column."""

    def __init__(self, groups: RowGroups) -> None:
        self._groups = groups

    def data(self, row: int) -> memoryview:
        """Those of the row group that is read, or was lately."""
        return self._groups.value(row)

    def name(self, row: int) -> str:
        """Its file and row."""
        path, number = self._groups.place(row)
        return f"{path}, row {number}"


def open_parquet(files: DataFiles, half: HalfName) -> ImageSource | None:
    """The pictures of a half, whose row groups are read late; None if there are no files.

    Labels are numbers, or names of classes; without names of their own, or a file of them, these
    are the ones of the training half, sorted. Raises DataError.
    """
    found = _Columns.of(files, half)
    if found is None:
        return None
    values, label = found.labels, f"{found.paths[0].parent}: {found.label}"
    labels: LabelArray
    if values.dtype == object and all(isinstance(each, str) for each in values):
        texts, codes = np.unique(values.astype(str), return_inverse=True)

        def training() -> list[str]:
            train = found if half == "train" else _Columns.of(files, "train")
            assert train is not None
            found_there: list[str] = np.unique(train.labels.astype(str)).tolist()
            return found_there

        labels, names = classes_by_name(
            files, texts.tolist(), codes, training, lambda row: f"{label}, row {row}"
        )
    else:
        labels, names = as_labels(values, label, files.first_label), found.class_names
    groups = RowGroups(found.paths, found.opened, found.image, "bytes")
    contents = _contents(groups, labels, files.channels)
    return EncodedSource(
        ParquetPictures(groups), labels, names, files.channels, contents, files.decoding
    )


@final
@dataclass(frozen=True, slots=True)
class _Columns:
    """The files of a half, the name of their pictures, and the labels (n,) with theirs."""

    paths: list[Path]
    opened: list[Any]
    image: str
    label: str
    labels: npt.NDArray[Any]
    class_names: tuple[str, ...]

    @classmethod
    def of(cls, files: DataFiles, half: HalfName) -> _Columns | None:
        """As opened; None if there are no files. DataError."""
        paths = files.of_half(half, NAMES)
        if not paths:
            return None
        opened = [_opened(path) for path in paths]
        schema = opened[0].schema_arrow
        for path, file in zip(paths, opened, strict=True):
            if not file.schema_arrow.equals(schema):
                raise DataError(
                    f"{path}: other columns than in {paths[0]}: expected the same in all"
                )
        features = _features(schema.metadata or {})
        image = _image_column(paths[0], schema)
        label = _label_column(paths[0], schema, features, files.label)
        values = np.concatenate(
            [_values(path, file, label) for path, file in zip(paths, opened, strict=True)]
        )
        named = features.get(label, {}).get("names")
        names = tuple(map(str, named)) if isinstance(named, list) else ()
        check_distinct(names, paths[0])
        return cls(paths, opened, image, label, values, names)


def _opened(path: Path) -> Any:
    parquet = optional("pyarrow.parquet", "parquet", "parquet")
    try:
        note_mapped(path)
        return parquet.ParquetFile(path, memory_map=True)
    except (OSError, ValueError) as error:  # pyarrow's own are of these kinds
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: no whole parquet file ({reason_of(error)}): fetch it again")


def _values(path: Path, file: Any, column: str) -> npt.NDArray[Any]:
    try:
        found: npt.NDArray[Any] = file.read([column]).column(column).to_numpy(zero_copy_only=False)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    return found


def _features(metadata: dict[bytes, bytes]) -> dict[str, dict[str, Any]]:
    """What Hugging Face tells of the columns, by name; nothing where it tells nothing."""
    try:
        found = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: each for name, each in found.items() if isinstance(each, dict)}


def _image_column(path: Path, schema: Any) -> str:
    """The column of records with a field `bytes`."""
    found = [
        field.name
        for field in schema
        if getattr(field.type, "get_field_index", lambda _name: -1)("bytes") >= 0
    ]
    if len(found) != 1:
        raise DataError(
            f"{path}: has columns {', '.join(schema.names)}: expected one with pictures "
            f"{{bytes, path}}, found {len(found)}"
        )
    return str(found[0])


def _label_column(
    path: Path, schema: Any, features: dict[str, dict[str, Any]], wanted: str | None
) -> str:
    """The column that `data.label` names, or the only one of classes, or `label`."""
    classes = [
        name
        for name, each in features.items()
        if each.get("_type") == "ClassLabel" and name in schema.names
    ]
    known = classes or [name for name in ("label", "labels") if name in schema.names]
    if wanted is not None and wanted not in schema.names:
        known = []
    elif wanted is not None or len(known) == 1:
        return wanted or known[0]
    given = "" if wanted is None else f"data.label = '{wanted}': "
    raise DataError(
        f"{path}: {given}has columns {', '.join(schema.names)}: expected one with labels; name it "
        f"by data.label{', such as ' + ' or '.join(classes) if classes else ''}"
    )


def _contents(groups: RowGroups, labels: LabelArray, channels: int) -> HalfContents:
    """By all labels, and the bytes of a few pictures: each needs its row group."""
    found = xxh3_128(np.ascontiguousarray(labels).data)
    for row in sampled(len(labels))[:: max(1, len(labels) // 8)]:
        found.update(groups.value(row))
    return HalfContents(len(labels), (0, 0, channels), found.hexdigest())
