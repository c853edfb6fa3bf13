"""Tar shards become the halves of a data set."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.dataset import Halves
from knltrain.data.readers import tar
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.halves import open_halves
from knltrain.data.readers.tar import open_tar
from knltrain.errors import DataError

from ..pictures import jpeg, texture
from .test_tar_scan import write

SHARED = Path(__file__).parents[4].parent / "shared/data"
CIFAR = SHARED / "cifar10-jpeg"
needs_cifar = pytest.mark.skipif(not CIFAR.exists(), reason=f"{CIFAR} is not there")
GREY_LEVELS_OFF = 3


def shard(root: Path, name: str, *labels: str, suffix: str = "cls") -> None:
    members: dict[str, bytes] = {}
    for number, label in enumerate(labels):
        members[f"{number}.jpg"] = jpeg(texture(16, 24, number))
        members[f"{number}.{suffix}"] = label.encode()
    write(root / name, members)  # type: ignore[arg-type]


def halves(root: Path, **settings: object) -> Halves:
    return open_halves("tar", open_tar, DataFiles(root, **settings))  # type: ignore[arg-type]


def test_shards_are_found_by_their_names_or_by_patterns(tmp_path: Path) -> None:
    for number in range(3):
        shard(tmp_path, f"train-{number:03d}.tar", "0", "1")
    shard(tmp_path, "val-000.tar", "1", "0")
    found = halves(tmp_path)
    assert found.train.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.test.labels.tolist() == [1, 0]
    difference = found.train.picture(5).astype(int) - texture(16, 24, 1)
    assert np.abs(difference).mean() < GREY_LEVELS_OFF
    assert found.train.picture_name(5) == f"{tmp_path}/train-002.tar: 1.jpg"
    some = halves(tmp_path, train=("train-{001..002}.tar",), test=("v*.tar",))
    assert len(some.train) == 4
    with pytest.raises(DataError, match=r"data.train = 'train-003.tar': no such file"):
        halves(tmp_path, train=("train-{001..003}.tar",))


def test_names_as_labels_are_classes_of_the_training_half(tmp_path: Path) -> None:
    shard(tmp_path, "train.tar", "dog", "cat", "dog", suffix="txt")
    shard(tmp_path, "test.tar", "dog", suffix="txt")
    found = halves(tmp_path)
    assert found.test.class_names == ("cat", "dog")
    assert (found.train.labels.tolist(), found.test.labels.tolist()) == ([1, 0, 1], [1])


def test_folders_are_classes_where_no_sample_has_a_label(tmp_path: Path) -> None:
    names = ("set/cat/1.jpg", "set/cat/2.jpg", "set/dog/1.jpg", "set/dog/2.jpg")
    write(tmp_path / "train.tar", {name: jpeg(texture(8, 8)) for name in names})
    found = halves(tmp_path, test_share=0.5)
    assert found.train.class_names == ("cat", "dog")
    assert found.train.labels.tolist() == [0, 1]
    write(tmp_path / "train.tar", {"1.jpg": b"", "2.jpg": b""})
    with pytest.raises(DataError, match=r"train.tar: 1.jpg: has no label: .*or a folder for each"):
        halves(tmp_path, test_share=0.5)


def test_a_single_sample_without_a_label_is_told(tmp_path: Path) -> None:
    write(tmp_path / "train.tar", {"1.jpg": b"", "1.cls": b"0", "2.jpg": b"", "3.cls": b"1"})
    with pytest.raises(DataError, match=r"train.tar: 2.jpg: has no label: expected a file of the"):
        halves(tmp_path, test_share=0.5)


def test_shards_without_pictures_are_told(tmp_path: Path) -> None:
    write(tmp_path / "train.tar", {"1.cls": b"0"})
    with pytest.raises(DataError, match=r"train.tar: holds no pictures: expected samples as"):
        halves(tmp_path, test_share=0.5)


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    members = {"1.jpg": b"", "1.cls": b"0", "2.jpg": b"", "2.cls": b"1", "README": b"", "x": b""}
    write(tmp_path / "train.tar", members)  # type: ignore[arg-type]
    shard(tmp_path, "test.tar", "0", "1")
    content = (tmp_path / "test.tar").read_bytes()
    end = -(-len(content.rstrip(b"\0")) // 512) * 512  # of the last member's last block
    (tmp_path / "test.tar").write_bytes(content[:end])
    one, other = halves(tmp_path).notes
    assert "train.tar: 2 members are no files of a sample with a picture" in one
    assert "test.tar: has no mark at its end: some of it may be missing" in other


def test_an_index_is_remembered_until_a_shard_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard(tmp_path, "train.tar", "0", "1")
    shard(tmp_path, "test.tar", "0", "1")
    for name in ("train.tar", "test.tar"):
        os.utime(tmp_path / name, (1e9, 1e9))
    first = halves(tmp_path)
    scans = []
    scan = tar.ShardScan.of
    monkeypatch.setattr(tar.ShardScan, "of", lambda path: (scans.append(path.name), scan(path))[1])
    again = halves(tmp_path)
    assert (scans, again.contents) == ([], first.contents)
    assert np.array_equal(again.train.picture(1), first.train.picture(1))
    shard(tmp_path, "train.tar", "1", "0", "1")
    assert halves(tmp_path).train.labels.tolist() == [1, 0, 1]
    assert set(scans) == {"train.tar"}


def test_a_shard_that_changes_while_it_is_read_is_told(tmp_path: Path) -> None:
    shard(tmp_path, "train.tar", "0", "1")
    shard(tmp_path, "test.tar", "0", "1")
    found = halves(tmp_path)
    assert found.train.picture(0).shape == (16, 24, 3)
    os.truncate(tmp_path / "train.tar", 512)
    with pytest.raises(DataError, match=r"train.tar: has no longer .* bytes.*start anew"):
        found.train.picture(1)
    (tmp_path / "test.tar").unlink()
    with pytest.raises(DataError, match=r"test.tar: cannot be read any more"):
        found.test.picture(1)


@needs_cifar
def test_shards_of_cifar10_are_read() -> None:
    found = halves(CIFAR, train=("test-000000.tar",), test_share=0.1)
    assert (len(found.train), len(found.test)) == (9000, 1000)
    assert np.bincount(found.train.labels.astype(int)).tolist() == [900] * 10
    rows = range(0, 9000, 90)
    mean = np.mean([found.train.picture(row).mean(axis=(0, 1)) for row in rows], axis=0) / 255
    assert np.abs(mean - (0.4913, 0.4821, 0.4465)).max() < 0.05
