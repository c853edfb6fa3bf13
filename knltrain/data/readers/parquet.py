"""Parquet files as Hugging Face's datasets writes them: pictures {bytes, path}, and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, sampled
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.mapped import note_mapped
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

    Raises DataError.
    """
    paths = files.of_half(half, NAMES)
    if not paths:
        return None
    parquet = optional("pyarrow.parquet", "parquet", "parquet")
    try:
        for path in paths:
            note_mapped(path)
        opened = [parquet.ParquetFile(path, memory_map=True) for path in paths]
        return _source(paths, opened, files)
    except (OSError, ValueError) as error:  # pyarrow's own are of these kinds
        raise DataError(
            f"{paths[0].parent}: no whole parquet files ({reason_of(error)}): fetch them again"
        ) from error


def _source(paths: list[Path], opened: list[Any], files: DataFiles) -> EncodedSource:
    schema = opened[0].schema_arrow
    for path, file in zip(paths, opened, strict=True):
        if not file.schema_arrow.equals(schema):
            raise DataError(f"{path}: other columns than in {paths[0]}: expected the same in all")
    features = _features(schema.metadata or {})
    image = _image_column(paths[0], schema)
    label = _label_column(paths[0], schema, features, files.label)
    values = np.concatenate(
        [file.read([label]).column(label).to_numpy(zero_copy_only=False) for file in opened]
    )
    labels = as_labels(values, f"{paths[0].parent}: {label}", files.first_label)
    named = features.get(label, {}).get("names")
    names = tuple(map(str, named)) if isinstance(named, list) else ()
    groups = RowGroups(paths, opened, image, "bytes")
    contents = _contents(groups, labels, files.channels)
    return EncodedSource(
        ParquetPictures(groups), labels, names, files.channels, contents, files.decoding
    )


def _features(metadata: dict[bytes, bytes]) -> dict[str, dict[str, Any]]:
    """What Hugging Face tells of the columns, by name; nothing where it tells nothing."""
    try:
        found = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
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
