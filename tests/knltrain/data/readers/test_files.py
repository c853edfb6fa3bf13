from __future__ import annotations

import os
from pathlib import Path

import pytest

from knltrain.data.readers.files import DataFiles, listing
from knltrain.errors import DataError


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def names_of(files: DataFiles, half: str, *own: str) -> list[str]:
    names = {"train": ("train*", "other"), "test": ("test*",), half: own}
    return [path.relative_to(files.root).as_posix() for path in files.of_half(half, names)]


def test_files_are_found_by_the_formats_own_names_sorted_and_once(tmp_path: Path) -> None:
    write(tmp_path, "train-b", "train-a.gz", "train-a", "train-z.gz", "other", "sub/train-c")
    files = DataFiles(tmp_path)
    assert names_of(files, "train", "train*", "*-b") == ["train-a", "train-b", "train-z.gz"]
    assert names_of(files, "test", "test*") == []


def test_the_users_paths_and_patterns_replace_them(tmp_path: Path) -> None:
    write(tmp_path, "train", "a/1.bin", "a/2.bin", "b.bin", "c.bin")
    files = DataFiles(tmp_path, train=("a/*.bin", "c.bin"), test=(str(tmp_path / "b.bin"),))
    assert names_of(files, "train", "train") == ["a/1.bin", "a/2.bin", "c.bin"]
    assert names_of(files, "test", "test") == ["b.bin"]


def test_missing_files_are_told_with_what_is_there(tmp_path: Path) -> None:
    write(tmp_path, "one", "two/three")
    with pytest.raises(DataError, match=r"such as t\*\.x or s\.x \(the folder holds one, two/\)"):
        DataFiles(tmp_path).of_half("train", {"train": ("t*.x", "s.x")})
    with pytest.raises(
        DataError, match=r"data\.test = 'tree\*': no such file in .*holds one, two/"
    ):
        DataFiles(tmp_path, test=("tree*",)).of_half("test", {"test": ()})
    with pytest.raises(DataError, match=r"data\.train = '/nowhere/\*': no such file"):
        DataFiles(tmp_path, train=("/nowhere/*",)).of_half("train", {"train": ()})


@pytest.mark.parametrize(("name", "what"), [("file", "is a file"), ("none", "is not there")])
def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, name: str, what: str) -> None:
    write(tmp_path, "file")
    with pytest.raises(DataError, match=rf"data\.root = '.*{name}' {what}"):
        DataFiles(tmp_path / name).of_half("train", {"train": ("*",)})


def test_a_large_folder_is_not_listed_whole(tmp_path: Path) -> None:
    write(tmp_path, *(f"f{number:03}" for number in range(40)))
    assert listing(tmp_path).endswith("f011 and 28 more")


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (("*",), (), r"data.train = \['\*'\] and no data.test: 2 files .* such as .*test-1"),
        ((), ("*",), r"no data.train and data.test = \['\*'\]: 3 files"),
        (("linked*", "train-1"), ("test-1",), r"1 files would be for training and for testing"),
    ],
)
def test_files_of_both_halves_are_refused(tmp_path: Path, train, test, said) -> None:
    write(tmp_path, "train-1", "train-2", "train-3", "test-1", "test-2")
    (tmp_path / "linked").symlink_to(tmp_path / "test-1")
    names = {"train": ("train*",), "test": ("test*",)}
    files = DataFiles(tmp_path, train=train, test=test)
    with pytest.raises(DataError, match=said):
        files.of_half("test", names)
    assert files.of_half("train", names)
    assert files.of_half("test", names, shared=True)
    assert DataFiles(tmp_path, train=("train-1",), test=("train-1",)).of_half("test", names)


def test_fifos_and_names_that_are_too_long_are_refused_at_once(tmp_path: Path) -> None:
    write(tmp_path, "train-1")
    os.mkfifo(tmp_path / "train-2")
    with pytest.raises(DataError, match=r"train-2: cannot be read \(it is a FIFO"):
        DataFiles(tmp_path).of_half("train", {"train": ("train*",)})
    long = "a" * 300
    with pytest.raises(DataError, match=r"data\.train = 'a+': File name too long, in "):
        DataFiles(tmp_path, train=(long,)).of_half("train", {"train": ()})
    with pytest.raises(DataError, match=r"data\.root = '.*a+' cannot be read \(File name too long"):
        DataFiles(tmp_path / long).of_half("train", {"train": ()})


def test_files_that_are_numbered_must_all_be_there(tmp_path: Path) -> None:
    write(tmp_path, "a/train-00000-of-00003.x", "a/train-00002-of-00003-0f3c.x", "b/train-1.x")
    own = {"train": ("**/train*",), "test": ("**/test*",)}
    with pytest.raises(DataError, match=r"a/train-00001-of-00003: is missing, as 1 of its 3 files"):
        DataFiles(tmp_path).of_half("train", own)
    chosen = DataFiles(tmp_path, train=("a/train-00002*",))
    assert [path.name for path in chosen.of_half("train", own)] == ["train-00002-of-00003-0f3c.x"]
    write(tmp_path, "a/train-00001-of-00003.x", "c/train-00000-of-00001.x")
    assert len(DataFiles(tmp_path).of_half("train", own)) == 5
