from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.idx import open_idx
from knltrain.errors import DataError

from .written import check, pictures, write_idx

SHARED = Path(__file__).parents[4].parent / "shared/data/mnist-60k"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_images_and_labels_are_told_by_their_dimensions(tmp_path: Path, suffix: str) -> None:
    pixels, labels = pictures(9, channels=1)
    write_idx(tmp_path / f"emnist-letters-train-images-idx3-ubyte{suffix}", pixels[..., 0])
    write_idx(tmp_path / f"emnist-letters-train-labels-idx1-ubyte{suffix}", labels)
    source = open_idx(DataFiles(tmp_path), "train")
    check(source, pixels, labels)
    assert source.held_bytes == (pixels.nbytes if suffix else 0)
    assert open_idx(DataFiles(tmp_path), "test") is None


def test_mapped_and_unpacked_files_have_the_same_contents(tmp_path: Path) -> None:
    pixels, labels = pictures(9)
    contents = []
    for suffix in ("", ".gz"):
        write_idx(tmp_path / f"train-images-idx4{suffix}", pixels)
        write_idx(tmp_path / f"train-labels-idx1{suffix}", labels)
        files = DataFiles(tmp_path, train=(f"*images*4{suffix}", f"*labels*1{suffix}"))
        contents.append(open_idx(files, "train").contents())
    assert contents[0] == contents[1]


def test_several_pairs_need_a_pattern(tmp_path: Path) -> None:
    pixels, labels = pictures(4, channels=1)
    for name in ("letters", "digits"):
        write_idx(tmp_path / f"{name}-train-images-idx3", pixels[..., 0])
        write_idx(tmp_path / f"{name}-train-labels-idx1", labels + (name == "letters"))
    with pytest.raises(DataError, match=r"2 of images \(digits-.*2 of labels .* data\.train = '"):
        open_idx(DataFiles(tmp_path), "train")
    source = open_idx(DataFiles(tmp_path, train=("letters-*",), first_label=1), "train")
    check(source, pixels, labels)


def test_labels_that_do_not_match_are_refused(tmp_path: Path) -> None:
    pixels, labels = pictures(4, channels=1)
    write_idx(tmp_path / "train-images-idx3", pixels[..., 0])
    with pytest.raises(DataError, match=r"0 of labels \(none\)"):
        open_idx(DataFiles(tmp_path), "train")
    write_idx(tmp_path / "train-labels-idx1", labels[:3])
    with pytest.raises(DataError, match="4 images, but 3 labels"):
        open_idx(DataFiles(tmp_path), "train")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_transposed_images_become_upright(tmp_path: Path, suffix: str) -> None:
    for channels in (1, 3):
        pixels, labels = pictures(4, channels)
        stored = pixels.swapaxes(1, 2) if channels > 1 else pixels[..., 0].swapaxes(1, 2)
        write_idx(tmp_path / f"emnist-x-train-images-idx3{suffix}", np.ascontiguousarray(stored))
        write_idx(tmp_path / f"emnist-x-train-labels-idx1{suffix}", labels)
        source = open_idx(DataFiles(tmp_path, transposed=True), "train")
        check(source, pixels, labels)
        assert (source.notes, source.image_shape) == ((), (5, 6, channels))
        as_stored = open_idx(DataFiles(tmp_path), "train")
        assert as_stored.image_shape == (6, 5, channels)
        assert "data.transposed = true" in as_stored.notes[0]
        assert as_stored.contents() != source.contents()


def emnist(folder: Path, mapping: bytes, first: int = 1) -> DataFiles:
    pixels, labels = pictures(4, channels=1)
    write_idx(folder / "emnist-letters-train-images-idx3-ubyte.gz", pixels[..., 0])
    write_idx(folder / "emnist-letters-train-labels-idx1-ubyte.gz", labels % 2 + 1)
    (folder / "emnist-letters-mapping.txt").write_bytes(mapping)
    return DataFiles(folder, first_label=first)


def test_classes_of_emnist_are_called_by_their_characters(tmp_path: Path) -> None:
    files = emnist(tmp_path, b"1 65 97\r\n2 66 98\r\n")
    assert open_idx(files, "train").class_names == ("Aa", "Bb")
    (tmp_path / "classes.txt").write_text("a\nb\n")
    assert open_idx(files, "train").class_names == ()  # which is named for both halves at once


@pytest.mark.parametrize(
    ("mapping", "first", "message"),
    [
        (b"1 65 97\n2 66 98\n", 0, r"names 1, 2 .*from 0: .*set data.first_label = 1"),
        (b"1 65 97\n3 66 98\n", 1, "names 1, 3 "),
        (b"1 65\n2\n", 1, "with its characters"),
        (b"", 1, "names no classes"),
        (b"1 A\n", 1, r"cannot be read \(invalid literal.*expected lines of a label"),
        (b"1 9999999999999\n", 1, "cannot be read"),
        (b"1 \xff\n", 1, "cannot be read"),
    ],
)
def test_another_mapping_is_refused(
    tmp_path: Path, mapping: bytes, first: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        open_idx(emnist(tmp_path, mapping, first), "train")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs MNIST in ../shared/data/mnist-60k")
def test_the_test_half_of_mnist_is_read() -> None:
    source = open_idx(DataFiles(SHARED), "test")
    assert np.bincount(source.labels).tolist()[:3] == [980, 1135, 1032]
    assert source.image_shape == (28, 28, 1)
