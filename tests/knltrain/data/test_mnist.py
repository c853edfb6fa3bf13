"""MNIST is put together from matching halves, whichever of them are there."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.extent import Extent
from knltrain.data.mnist import load_mnist, mnist_extent
from knltrain.errors import DataError

SHARED = Path(__file__).parents[3].parent / "shared/data/mnist"


def _write(path: Path, array: np.ndarray) -> None:
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def _write_half(root: Path, half: str, images: int, suffix: str = "") -> None:
    """Images whose pixels are their index, and labels that count up."""
    pixels = np.broadcast_to(np.arange(images)[:, None, None], (images, 28, 28))
    _write(root / f"{half}-images-idx3-ubyte{suffix}", pixels)
    _write(root / f"{half}-labels-idx1-ubyte{suffix}", np.arange(images) % 10)


def test_both_halves_are_train_and_test(tmp_path: Path) -> None:
    _write_half(tmp_path, "train", 30, ".gz")
    _write_half(tmp_path, "t10k", 20)
    dataset = load_mnist(tmp_path)
    assert (dataset.name, len(dataset.train.class_names)) == ("mnist", 10)
    assert dataset.train.pixels.shape == (30, 28, 28, 1)
    assert dataset.test.labels.tolist() == [index % 10 for index in range(20)]


def test_t10k_half_alone_is_split_and_the_description_says_so(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    dataset = load_mnist(tmp_path)
    assert dataset.name == "mnist-t10k"
    assert "first 18 images for training and the other 2 for testing" in dataset.description
    assert dataset.train.labels.tolist() == [index % 10 for index in range(18)]
    assert dataset.test.labels.tolist() == [8, 9]
    pixel = dataset.train.pixels[:, 0, 0, 0]
    assert dataset.test.pixels[0, 0, 0, 0] > pixel[-1] > pixel[0]


def test_t10k_half_is_told_of_unless_it_was_asked_for(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    (note,) = load_mnist(tmp_path).notes
    assert "t10k half" in note
    assert "no images of the training half" in note
    asked = load_mnist(tmp_path, alone=True)
    assert (asked.name, asked.notes) == ("mnist-t10k", ())


def test_t10k_half_can_be_asked_for_whatever_else_is_there(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    _write_half(tmp_path, "train", 30)
    assert (load_mnist(tmp_path).name, load_mnist(tmp_path).notes) == ("mnist", ())
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"data\.name = 'mnist-t10k'"):
        load_mnist(tmp_path)
    assert len(load_mnist(tmp_path, alone=True).train) == 18


def test_contents_are_those_of_the_images_in_use(tmp_path: Path) -> None:
    for folder, images in (("a", 20), ("b", 20), ("c", 30)):
        (tmp_path / folder).mkdir()
        _write_half(tmp_path / folder, "t10k", images, ".gz" if folder == "b" else "")
    first, packed, more = (load_mnist(tmp_path / folder).contents for folder in "abc")
    assert first == packed != more
    assert (first.train.images, first.test.images) == (18, 2)
    fewer = load_mnist(tmp_path / "a", train_images=5).contents
    assert (fewer.train.images, fewer.test) == (5, first.test)


def test_extent_is_that_of_the_images_that_are_read(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    assert mnist_extent(tmp_path) == Extent(18, 2, (28, 28, 1))
    _write_half(tmp_path, "train", 30, ".gz")
    assert mnist_extent(tmp_path) == Extent(30, 20, (28, 28, 1))
    assert mnist_extent(tmp_path, alone=True) == Extent(18, 2, (28, 28, 1))


def test_halves_of_other_sizes_are_refused_with_both_files(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    _write(tmp_path / "train-images-idx3-ubyte", np.zeros((9, 32, 28)))
    _write(tmp_path / "train-labels-idx1-ubyte", np.zeros(9))
    expected = r"train-images-idx3-ubyte has images of 32 x 28 pixels, but .*t10k.* of 28 x 28"
    with pytest.raises(DataError, match=expected):
        load_mnist(tmp_path)


@pytest.mark.parametrize("images", [1, 2])
def test_too_few_images_to_learn_and_be_tested_are_refused(tmp_path: Path, images: int) -> None:
    _write_half(tmp_path, "t10k", images)
    with pytest.raises(DataError, match=rf"t10k-images-idx3-ubyte holds {images} image.* too few"):
        load_mnist(tmp_path)


def test_fewer_images_are_the_first_of_each_half(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 40)
    dataset = load_mnist(tmp_path, train_images=3, test_images=2)
    assert dataset.train.labels.tolist() == [0, 1, 2]
    assert dataset.test.labels.tolist() == [6, 7]  # of 36 and later


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [(19, None, r"data\.train_images = 19, .* 18"), (None, 3, r"data\.test_images = 3, .* 2")],
)
def test_more_images_than_there_are_is_refused(
    tmp_path: Path, train: int | None, test: int | None, message: str
) -> None:
    _write_half(tmp_path, "t10k", 20)
    with pytest.raises(DataError, match=message):
        load_mnist(tmp_path, train, test)


def test_missing_file_says_what_the_folder_holds(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\[\.gz\] is missing .*notes\.txt"):
        load_mnist(tmp_path)


def test_missing_folder_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere/t10k-images.*holds nothing.*set data\.root"):
        load_mnist(tmp_path / "nowhere")


def test_different_numbers_of_images_and_labels_are_refused(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    _write(tmp_path / "t10k-labels-idx1-ubyte", np.zeros(19))
    with pytest.raises(DataError, match=r"holds 20 images, but .*t10k-labels-idx1-ubyte 19 labels"):
        load_mnist(tmp_path)


def test_label_out_of_range_names_the_label_file(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    labels = np.zeros(20)
    labels[4] = 11
    _write(tmp_path / "t10k-labels-idx1-ubyte", labels)
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte: label 11 at index 4"):
        load_mnist(tmp_path)


def test_images_and_labels_exchanged_are_refused(tmp_path: Path) -> None:
    _write_half(tmp_path, "t10k", 20)
    _write(tmp_path / "t10k-images-idx3-ubyte", np.zeros(20))
    with pytest.raises(DataError, match="t10k-images-idx3-ubyte: has 1 dimensions, expected 3"):
        load_mnist(tmp_path)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"MNIST's t10k half is not in {SHARED}")
def test_real_t10k_half_splits_into_9000_and_1000() -> None:
    dataset = load_mnist(SHARED, alone=True)
    assert dataset.name == "mnist-t10k"
    assert (len(dataset.train), len(dataset.test)) == (9000, 1000)
    assert dataset.train.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert set(np.unique(dataset.test.labels)) == set(range(10))
