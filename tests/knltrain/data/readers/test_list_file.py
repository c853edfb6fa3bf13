"""List files as Caffe's become the halves of a data set."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.dataset import Halves
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.halves import open_halves
from knltrain.data.readers.list_file import open_list
from knltrain.errors import DataError

from ..pictures import jpeg, texture


def halves(root: Path, train: str, test: str = "a.jpg 0\n", **settings: object) -> Halves:
    for number, name in enumerate(("a.jpg", "b c.jpg", "d/e.png")):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(jpeg(texture(16, 24, number)))
    (root / "train.txt").write_bytes(os.fsencode(train))
    (root / "val.txt").write_bytes(os.fsencode(test))
    return open_halves("list", open_list, DataFiles(root, **settings))  # type: ignore[arg-type]


def test_each_line_is_a_path_and_a_label(tmp_path: Path) -> None:
    found = halves(tmp_path, "a.jpg 0\nb c.jpg 2\r\nd/e.png\t1\n\n", "b c.jpg 1")
    assert found.train.labels.tolist() == [0, 2, 1]
    assert found.train.class_names == ("0", "1", "2")
    assert np.abs(found.train.picture(1).astype(int) - texture(16, 24, 1)).mean() < 3
    assert found.test.picture_name(0) == f"{tmp_path}/b c.jpg"


def test_labels_may_count_from_one_or_be_names(tmp_path: Path) -> None:
    found = halves(tmp_path, "a.jpg 1\nb c.jpg 2\n", "a.jpg 2", first_label=1)
    assert (found.train.labels.tolist(), found.test.labels.tolist()) == ([0, 1], [1])
    named = halves(tmp_path, "a.jpg dog\nb c.jpg cat\n", "a.jpg dog")
    assert named.train.class_names == named.test.class_names == ("cat", "dog")
    assert (named.train.labels.tolist(), named.test.labels.tolist()) == ([1, 0], [1])


def test_labels_from_one_are_told_and_gaps_noted(tmp_path: Path) -> None:
    (note,) = halves(tmp_path, "a.jpg 1\nb c.jpg 2\n", "a.jpg 2").notes
    assert "if labels count from 1, set data.first_label = 1" in note
    notes = halves(tmp_path, "a.jpg 0\nb c.jpg 3\n", "a.jpg 0").notes
    assert "there are no training images of 2 of 4 classes: '1', '2'" in notes
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match=r"count from 1 to 2.*set data.first_label = 1"):
        halves(tmp_path, "a.jpg 1\nb c.jpg 2\n", "a.jpg 2")


@pytest.mark.parametrize("name", ["../out.jpg", "{out}", "link.jpg", "d/folder/out.jpg"])
def test_paths_that_leave_the_root_are_refused_unless_they_are_followed(
    tmp_path: Path, name: str
) -> None:
    root, out = tmp_path / "root", tmp_path / "out.jpg"
    (root / "d").mkdir(parents=True)
    out.write_bytes(jpeg(texture(16, 24, 7)))
    (root / "link.jpg").symlink_to(out)
    (root / "d/folder").symlink_to(tmp_path)
    lines = f"d/../a.jpg 0\n{name.format(out=out)} 1\n"
    with pytest.raises(DataError, match=r"train.txt, line 2: .* leads out of data.root"):
        halves(root, lines)
    found = halves(root, lines, follow_links=True)
    assert np.abs(found.train.picture(1).astype(int) - texture(16, 24, 7)).mean() < 3
    with pytest.raises(DataError, match=r"leads out of data\.root"):  # whatever was remembered
        halves(root, lines)


def test_a_file_of_names_is_heeded(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("cat\ndog\ncow\n")
    found = halves(tmp_path, "a.jpg 2\nb c.jpg 0\n", "a.jpg 1", class_names_file="names")
    assert found.test.class_names == ("cat", "dog", "cow")
    with pytest.raises(DataError, match=r"val.txt, line 1: unknown class 'crow'"):
        halves(tmp_path, "a.jpg cow\nb c.jpg cat\n", "a.jpg crow", class_names_file="names")
    with pytest.raises(
        DataError, match=r"b c.jpg: label 3 at index 1 is out of range: expected 0 to 2"
    ):
        halves(tmp_path, "a.jpg 0\nb c.jpg 3\n", class_names_file="names")


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("a.jpg 0\na.jpg\n", r"train.txt, line 2: 'a.jpg' has no label after a space"),
        ("b c.jpg\n", r"train.txt, line 1: 'b c.jpg' has no label"),
        ("a.jpg,0\n", r"line 1: 'a.jpg,0' has no label after a space: expected .*cats/001.jpg 0"),
        ("a.jpg 0\n\nb c.jpg 1\n", r"line 2: '' has no label"),
        ("\n \n", r"train.txt: is empty"),
        ("a.jpg 0\nx.jpg 1\ny.jpg 1\n", r"line 2: .*/x.jpg is no file \(2 of 3 are none\)"),
        ("a.jpg 0\n. 1\n", r"line 2: .* is no file \(1 of 2 are none\)"),
        ("a.jpg 0\nb c.jpg -1\n", r"label -1 at index 1 is no class"),
    ],
)
def test_lines_that_are_no_pictures_with_labels_are_told(
    train: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        halves(tmp_path, train)


def test_a_list_is_remembered_until_it_or_a_picture_changes(tmp_path: Path, home: Path) -> None:
    lines = "a.jpg 0\nb c.jpg 1\n"
    halves(tmp_path, lines)
    indexes = home / ".cache/knltrain/indexes"
    assert not indexes.exists()
    files = DataFiles(tmp_path)
    for name in ("train.txt", "val.txt"):
        os.utime(tmp_path / name, (1e9, 1e9))
    open_list(files, "train")
    assert len(list(indexes.iterdir())) == 1
    (tmp_path / "a.jpg").write_bytes(jpeg(texture(32, 32)))
    found = open_list(files, "train")
    assert found is not None
    assert found.picture(0).shape == (32, 32, 3)
    (tmp_path / "train.txt").write_text("a.jpg 1\n")
    found = open_list(files, "train")
    assert found is not None
    assert found.labels.tolist() == [1]


def test_a_picture_that_changes_later_is_told_with_the_list(tmp_path: Path) -> None:
    found = halves(tmp_path, "a.jpg 0\nb c.jpg 1\n").train
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"a.jpg: has no longer the .*: touch .*/train.txt$"):
        found.picture(0)


def test_without_lists_the_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "my.txt").write_text("")
    with pytest.raises(DataError, match=r"train.txt.*the folder holds my.txt.*data.train"):
        open_list(DataFiles(tmp_path), "train")


def test_damaged_lines_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.txt, line 2: .*a+\.jpg is no file"):
        halves(tmp_path, f"a.jpg 0\n{'a' * 5000}.jpg 1\n")
    with pytest.raises(DataError, match=r"line 3: 'a\.jpg' has label 1, and another one above"):
        halves(tmp_path, "a.jpg 0\nb c.jpg 1\na.jpg 1\n")
    assert len(halves(tmp_path, "a.jpg 0\nb c.jpg 1\na.jpg 0\n").train) == 3  # as is asked for
    notes = halves(tmp_path, "a.jpg 0\nb c.jpg 1\nd/e.png 1.0\n").notes
    assert any(
        "train.txt, line 3: label '1.0' is no whole number, as most" in each for each in notes
    )
    assert not any("number" in each for each in halves(tmp_path, "a.jpg 0\nb c.jpg x\n").notes)
