from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.cifar import open_cifar10, open_cifar100
from knltrain.data.readers.files import DataFiles
from knltrain.errors import DataError

NAMES = ("airplane", "automobile", "bird")


def pictures(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Planes (count,3,32,32), and labels."""
    planes = np.random.default_rng(count).integers(0, 256, (count, 3, 32, 32), np.uint8)
    return planes, np.arange(count) % 3


def records(planes: np.ndarray, *labels: np.ndarray) -> bytes:
    first = np.stack(labels, axis=1).astype(np.uint8)
    return np.concatenate([first, planes.reshape(len(planes), -1)], axis=1).tobytes()


def pickled(planes: np.ndarray, **labels: np.ndarray) -> bytes:
    lists = {name.encode(): each.tolist() for name, each in labels.items()}
    return pickle.dumps({b"data": planes.reshape(len(planes), -1), **lists}, 2)


def with_labels(labels: object) -> bytes:
    return pickle.dumps({b"data": pictures(2)[0].reshape(2, -1), b"labels": labels}, 2)


def check(source, planes: np.ndarray, labels: np.ndarray) -> None:
    assert source.labels.tolist() == labels.tolist()
    found = [source.picture(row) for row in range(len(source))]
    np.testing.assert_array_equal(found, planes.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("below", [".", "cifar-10-batches-bin"])
def test_binary_cifar10_is_mapped_with_its_names(tmp_path: Path, below: str) -> None:
    folder, (planes, labels) = tmp_path / below, pictures(7)
    folder.mkdir(exist_ok=True)
    (folder / "data_batch_1.bin").write_bytes(records(planes[:4], labels[:4]))
    (folder / "data_batch_2.bin").write_bytes(records(planes[4:], labels[4:]))
    (folder / "test_batch.bin").write_bytes(records(planes[:2], labels[:2]))
    (folder / "batches.meta.txt").write_text("\n".join([*NAMES, "", ""]))
    files = DataFiles(tmp_path)
    source = open_cifar10(files, "train")
    check(source, planes, labels)
    check(open_cifar10(files, "test"), planes[:2], labels[:2])
    assert (source.class_names, source.held_bytes) == (NAMES, 0)


def test_pickled_cifar10_is_the_same(tmp_path: Path) -> None:
    planes, labels = pictures(5)
    (tmp_path / "data_batch_1").write_bytes(pickled(planes, labels=labels))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": list(NAMES)}, 2))
    (tmp_path / "readme.html").touch()
    source = open_cifar10(DataFiles(tmp_path), "train")
    check(source, planes, labels)
    assert source.class_names == NAMES
    assert open_cifar10(DataFiles(tmp_path), "test") is None
    packed = tmp_path / "binary"
    packed.mkdir()
    (packed / "data_batch_1.bin").write_bytes(records(planes, labels))
    assert open_cifar10(DataFiles(packed), "train").contents() == source.contents()


def test_of_two_versions_in_one_folder_one_is_read(tmp_path: Path) -> None:
    planes, labels = pictures(5)
    for folder in ("cifar-10-batches-bin", "cifar-10-batches-py"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cifar-10-batches-bin/data_batch_1.bin").write_bytes(records(planes, labels))
    (tmp_path / "cifar-10-batches-py/data_batch_1").write_bytes(pickled(planes, labels=labels))
    assert len(open_cifar10(DataFiles(tmp_path), "train")) == 5


def test_cifar100_has_two_kinds_of_labels(tmp_path: Path) -> None:
    planes, fine = pictures(5)
    coarse = 2 - fine
    (tmp_path / "train.bin").write_bytes(records(planes, coarse, fine))
    (tmp_path / "test").write_bytes(pickled(planes, fine_labels=fine, coarse_labels=coarse))
    (tmp_path / "fine_label_names.txt").write_text("\n".join(NAMES))
    (tmp_path / "meta").write_bytes(pickle.dumps({"coarse_label_names": ["x", "y", "z"]}, 2))
    for half in ("train", "test"):
        source = open_cifar100(DataFiles(tmp_path), half)
        check(source, planes, fine)
        assert source.class_names == NAMES
        source = open_cifar100(DataFiles(tmp_path, label="coarse_labels"), half)
        check(source, planes, coarse)
        assert source.class_names == ("x", "y", "z")
    with pytest.raises(DataError, match=r"data\.label = 'fin': expected one of coarse_labels"):
        open_cifar100(DataFiles(tmp_path, label="fin"), "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (records(*pictures(2))[:-1], "data_batch_1: 6,145 bytes are no whole number of records"),
        (b"", "0 bytes are no whole number"),
        (pickled(pictures(2)[0]), "data_batch_1: holds data: expected data and labels"),
        (pickled(np.zeros((2, 5), np.uint8), labels=np.zeros(2)), r"data have shape \(2, 5\)"),
        (pickled(pictures(2)[0], labels=np.zeros(3, int)), "2 images, but 3 labels"),
        (with_labels({1: 2}), "holds data, labels: expected data and labels"),
        (with_labels("abc"), "holds data, labels: expected data and labels"),
        (with_labels([1, [2, 3]]), r"labels have shape \(2,\) and type object"),
        (with_labels([[1], [2, 3]]), r"labels have shape \(2,\) and type object"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match=message):
        open_cifar10(DataFiles(tmp_path), "train")


def test_labels_of_more_classes_than_there_are_damage_the_file(tmp_path: Path) -> None:
    planes, labels = pictures(7)
    labels[5] = 77
    (tmp_path / "data_batch_1.bin").write_bytes(records(planes, labels))
    with pytest.raises(
        DataError, match=r"data_batch_1\.bin: the label at index 5 .* class 78 \(1 of"
    ):
        open_cifar10(DataFiles(tmp_path), "train")
    (tmp_path / "classes.txt").write_text("\n".join(map(str, range(78))))
    assert open_cifar10(DataFiles(tmp_path), "train").labels[5] == 77
