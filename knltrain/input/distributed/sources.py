"""The sources of a data set of which each node holds a part."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import final

import numpy as np

from knltrain.data.contents import HalfContents
from knltrain.data.dataset import Dataset, LabelledImages
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.source import ImageSource, Pixels, Rows
from knltrain.input.distributed.client import Doors
from knltrain.input.distributed.parts import NAME_LENGTH, Division, Part, read_part
from knltrain.input.distributed.records import DistributedRecords
from vectorized_ops.pictures import PicturesOf


@final
class DistributedPictures(ImageSource):
    """The raw pictures of `source`, all of one size, which lie in the parts of `records`."""

    def __init__(self, records: DistributedRecords, source: ImageSource) -> None:
        super().__init__(source.labels, source.class_names, source.channels, source.image_shape)
        self.records, self._contents = records, source.contents()

    def picture(self, row: int) -> Pixels:
        """From own memory or a peer's."""
        return self.pictures_of(np.array([row], np.int64))[0]

    def pictures_of(self, rows: Rows) -> PicturesOf:
        """Views of own memory where all lie there, or of what was fetched."""
        records = self.records
        part, staged = records.part, records.staged
        if staged is not None and (places := staged.places(rows)) is not None:
            return self._views(staged.room, places)
        if ((rows >= part.first) & (rows < part.first + len(part))).all():
            return self._views(part.content, rows - part.first)
        return self._views(records.fetch(rows).room, np.arange(len(rows)))

    def read(self, rows: Rows, out: Pixels) -> None:
        """Write the pictures `rows` (n,) to `out` (n,H,W,C)."""
        found = self.pictures_of(rows)
        np.take(found.pixels, found.rows, axis=0, out=out, mode="clip")

    @property
    def held_bytes(self) -> int:
        """Those of this node's part."""
        return self.records.part.content.nbytes

    def picture_name(self, row: int) -> str:
        """Its number and its node."""
        node = int(self.records.division.owners(np.array([row]))[0])
        return f"picture {row}, which node {node} holds"

    def contents(self) -> HalfContents:
        """Those of the files."""
        return self._contents

    def _views(self, content: Pixels | None, places: Rows) -> PicturesOf:
        assert content is not None and self.image_shape is not None
        return PicturesOf(content.reshape(-1, *self.image_shape), places)


@final
class DistributedFiles(EncodedPictures):
    """Encoded pictures, which lie in the parts of `records` with their names."""

    def __init__(self, records: DistributedRecords) -> None:
        self.records = records

    def expect(self, rows: Rows) -> None:
        """Fetch them at once."""
        self.records.keep(rows)

    def data(self, row: int) -> memoryview:
        """From own memory or a peer's."""
        return self._parted(row)[1]

    def name(self, row: int) -> str:
        """Its place in the files."""
        return os.fsdecode(bytes(self._parted(row)[0]))

    def _parted(self, row: int) -> tuple[memoryview, memoryview]:
        record = self.records.record(row)
        begin = NAME_LENGTH.size
        end = begin + NAME_LENGTH.unpack_from(record)[0]
        return record[begin:end], record[end:]


def distributed(dataset: Dataset, parts: tuple[Part, Part], doors: Doors) -> Dataset:
    """The data set whose pictures lie in the parts of all nodes; `parts` are this node's halves."""
    given = zip((dataset.train.source, dataset.test.source), parts, strict=True)
    train, test = (_source(half, *each, doors) for half, each in enumerate(given))

    def of_test(images: LabelledImages) -> LabelledImages:
        return replace(images, source=test)

    return replace(
        dataset,
        train=replace(dataset.train, source=train),
        test=of_test(dataset.test),
        test_crops=tuple(map(of_test, dataset.test_crops)),
    )


def read_parts(dataset: Dataset, node: int, nodes: int) -> tuple[Part, Part]:
    """This node's parts of both halves, read from the files. Raises DataError."""
    train, test = (
        read_part(half.source, Division(len(half), nodes).part(node))
        for half in (dataset.train, dataset.test)
    )
    return train, test


def records_of(source: ImageSource) -> DistributedRecords | None:
    """Where a source's pictures lie; None if they do not lie in parts."""
    if isinstance(source, DistributedPictures):
        return source.records
    if isinstance(source, EncodedSource) and isinstance(source.pictures, DistributedFiles):
        return source.pictures.records
    return None


def _source(half: int, source: ImageSource, part: Part, doors: Doors) -> ImageSource:
    division = Division(len(source), len(doors.addresses))
    records = DistributedRecords(half, division, part, doors)
    if not isinstance(source, EncodedSource):
        return DistributedPictures(records, source)
    return EncodedSource(
        DistributedFiles(records),
        source.labels,
        source.class_names,
        source.channels,
        source.contents(),
        source.rules,
    )
