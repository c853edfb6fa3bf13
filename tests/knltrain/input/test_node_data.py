"""The copy of a data set in a node's memory."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import affinity
from knltrain.data.dataset import Dataset, Halves, LabelledImages, numbered
from knltrain.data.derived import Selection
from knltrain.data.mapped import mapped_base
from knltrain.data.source import ArraySource
from knltrain.errors import SegmentError
from knltrain.input.node_data import NodeData, held_dataset, is_held

from .conftest import dataset_of


def test_a_copy_is_the_same_data_set(small_dataset: Dataset) -> None:
    data = NodeData.copy_of(small_dataset)
    try:
        copy = data.dataset()
        assert (copy.name, copy.notes, copy.contents) == (
            "small",
            ("said",),
            small_dataset.contents,
        )
        for ours, theirs in ((copy.train, small_dataset.train), (copy.test, small_dataset.test)):
            assert isinstance(ours.source, ArraySource) and isinstance(theirs.source, ArraySource)
            np.testing.assert_array_equal(ours.source.pixels, theirs.source.pixels)
            np.testing.assert_array_equal(ours.labels, theirs.labels)
            assert ours.source.class_names == theirs.source.class_names
            assert ours.source.picture_name(3) == theirs.source.picture_name(3)
            assert ours.image_shape == theirs.image_shape
    finally:
        data.close()


def test_pictures_and_labels_cannot_be_written(small_dataset: Dataset) -> None:
    data = NodeData.copy_of(small_dataset)
    try:
        copy = data.dataset()
        assert isinstance(copy.train.source, ArraySource)
        for array in (copy.train.source.pixels, copy.train.labels):
            assert not array.flags.writeable
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(data.fd, b"x")
    finally:
        data.close()


def test_arrays_are_outside_of_the_description(small_dataset: Dataset) -> None:
    """Those of a selection, too, and those that are not contiguous."""
    source = small_dataset.train.source
    assert isinstance(source, ArraySource)
    every_second = ArraySource(
        source.pixels[::2], source.labels[::2], numbered(4), source.contents(), "half"
    )
    selection = Selection(every_second, np.arange(10)[::-1])
    images = LabelledImages(selection, small_dataset.train.preprocessing)
    data = NodeData.copy_of(Dataset("selected", images, images))
    try:
        words = np.frombuffer(os.pread(data.fd, 16, 0), np.int64)
        assert words[1] < every_second.pixels.nbytes
        copy = data.dataset()
        np.testing.assert_array_equal(copy.train.source.picture(0), source.picture(18))
    finally:
        data.close()


def test_pictures_in_memory_are_held_and_those_of_mapped_files_are_not(
    tmp_path: Path, small_dataset: Dataset
) -> None:
    assert is_held(small_dataset)
    held = small_dataset.train.source
    assert isinstance(held, ArraySource)
    np.save(tmp_path / "pixels.npy", held.pixels)
    mapped = ArraySource(
        np.load(tmp_path / "pixels.npy", mmap_mode="r"),
        held.labels,
        numbered(4),
        held.contents(),
        "pixels.npy",
    )
    preprocessing = small_dataset.train.preprocessing
    assert not is_held(Dataset.of(Halves("mapped", mapped, mapped), preprocessing))
    for halves in (Halves("one", mapped, held), Halves("other", held, mapped)):
        dataset = Dataset.of(halves, preprocessing)
        assert is_held(dataset)
        data = NodeData.copy_of(dataset)
        try:
            for source in (data.dataset().train.source, data.dataset().test.source):
                assert isinstance(source, ArraySource)
                assert (mapped_base(source.pixels) is None) == (source.held_bytes > 0)
                np.testing.assert_array_equal(source.pixels, held.pixels)
        finally:
            data.close()


def test_the_memory_is_spread_over_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = []

    def place(memory: memoryview, mode: str, nodes: tuple[int, ...]) -> None:
        placed.append((mode, nodes, os.fstat(0) is not None))

    monkeypatch.setattr(affinity, "place_mapping", place)
    for nodes in ((), (1,), (0, 2)):
        NodeData.copy_of(dataset_of(4, 2), nodes).close()
    assert [each[:2] for each in placed] == [("preferred", (1,)), ("interleave", (0, 2))]


def test_another_file_is_refused(tmp_path: Path) -> None:
    for contents, words in ((b"", "is no data set"), (b"x" * 99, "no data set of knltrain's")):
        (tmp_path / "file").write_bytes(contents)
        with (tmp_path / "file").open("rb") as file, pytest.raises(SegmentError, match=words):
            held_dataset(file.fileno())


def test_nothing_is_left_if_a_source_cannot_be_passed_on(small_dataset: Dataset) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    source = small_dataset.train.source
    source.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
    with pytest.raises((TypeError, pickle.PicklingError)):
        NodeData.copy_of(small_dataset)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
