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


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs MNIST in ../shared/data/mnist-60k")
def test_the_test_half_of_mnist_is_read() -> None:
    source = open_idx(DataFiles(SHARED), "test")
    assert np.bincount(source.labels).tolist()[:3] == [980, 1135, 1032]
    assert source.image_shape == (28, 28, 1)
