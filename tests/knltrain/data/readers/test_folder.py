"""Image folders become the halves of a data set."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.dataset import Halves
from knltrain.data.encoded import DecodingRules
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.folder import open_folder
from knltrain.data.readers.halves import open_halves
from knltrain.errors import BrokenPicture, DataError

from ..pictures import jpeg, texture

HAND_SIGNS = Path(__file__).parents[4].parent / "shared/data/hand-signs.tar"


def write(root: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(jpeg(texture(16, 24, number)))


def halves(root: Path, **settings: object) -> Halves:
    return open_halves("folder", open_folder, DataFiles(root, **settings))  # type: ignore[arg-type]


def told(half: object, root: Path) -> list[str]:
    names = (half.picture_name(row) for row in range(len(half)))  # type: ignore[attr-defined,arg-type]
    return [name.removeprefix(f"{root}/") for name in names]


@pytest.mark.parametrize("test", ["test", "val", "validation"])
def test_halves_lie_in_folders_of_their_names(tmp_path: Path, test: str) -> None:
    write(tmp_path, "train/cat/1.jpg", "train/dog/1.jpg", f"{test}/dog/2.jpg", f"{test}/cat/2.jpg")
    found = halves(tmp_path)
    assert found.train.class_names == found.test.class_names == ("cat", "dog")
    assert told(found.train, tmp_path) == ["train/cat/1.jpg", "train/dog/1.jpg"]
    assert found.test.labels.tolist() == [0, 1]
    assert np.abs(found.test.picture(1).astype(int) - texture(16, 24, 2)).mean() < 3


def test_classes_take_turns_so_that_the_first_pictures_are_of_all(tmp_path: Path) -> None:
    names = [f"{name}/{number}.jpg" for name in "abc" for number in range(4)]
    write(tmp_path, *names, "c/4.jpg")
    found = halves(tmp_path, test_share=0.5)
    assert found.train.labels.tolist() == [0, 1, 2, 0, 1, 2, 2]
    assert found.test.labels.tolist() == [0, 1, 2, 0, 1, 2]
    both = told(found.train, tmp_path) + told(found.test, tmp_path)
    assert sorted(both) == sorted([*names, "c/4.jpg"])
    assert told(halves(tmp_path, test_share=0.5).test, tmp_path) == told(found.test, tmp_path)


def test_halves_are_named_by_the_user(tmp_path: Path) -> None:
    write(tmp_path, "x/a/1.jpg", "x/b/1.jpg", "y/a/1.jpg", "y/b/1.jpg", "test/z/1.jpg")
    found = halves(tmp_path, train=("x",), test=("y",))
    assert told(found.test, tmp_path) == ["y/a/1.jpg", "y/b/1.jpg"]
    with pytest.raises(DataError, match=r"data.test = '.*/w' is not there"):
        halves(tmp_path, train=("x",), test=("w",))
    with pytest.raises(DataError, match=r"data.train = \['x', 'y'\]: expected one folder"):
        halves(tmp_path, train=("x", "y"))


def test_a_test_half_may_lack_a_class_but_have_no_other(tmp_path: Path) -> None:
    write(tmp_path, "train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "test/c/1.jpg")
    write(tmp_path, "test/a/1.jpg")
    found = halves(tmp_path)
    assert found.test.labels.tolist() == [0, 2]
    assert "there are no test images of 1 of 3 classes: 'b'" in found.notes
    write(tmp_path, "test/cow/1.jpg")
    with pytest.raises(DataError, match=r"test/cow: unknown class 'cow': expected one of 'a', "):
        halves(tmp_path)


def test_a_test_half_may_have_one_class_alone(tmp_path: Path) -> None:
    write(tmp_path, "train/cat/1.jpg", "train/dog/1.jpg", "test/dog/2.jpg")
    found = halves(tmp_path)
    assert found.test.class_names == ("cat", "dog")
    assert found.test.labels.tolist() == [1]


def test_a_training_half_of_one_class_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "train/cat/1.jpg", "test/cat/2.jpg")
    with pytest.raises(DataError, match=r"holds one class alone, 'cat': .* two of them or more"):
        halves(tmp_path)


@pytest.mark.parametrize("given", [{"train": (".",), "test": ("test",)}, {}])
def test_a_half_in_the_other_one_is_refused(tmp_path: Path, given) -> None:
    write(tmp_path, "cat/x/1.jpg", "cat/y/1.jpg", "dog/2.jpg", "test/cat/3.jpg", "test/dog/3.jpg")
    with pytest.raises(DataError, match="one of these folders lies in the other"):
        halves(tmp_path, **given)


def test_halves_that_are_the_same_are_noted(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "dog/2.jpg")
    assert "training and test images are the same" in halves(tmp_path, test=(".",)).notes[0]


def test_two_folders_for_testing_are_told(tmp_path: Path) -> None:
    write(tmp_path, *(f"{half}/{name}/1.jpg" for half in ("train", "test", "val") for name in "ab"))
    with pytest.raises(DataError, match=r"holds folders test and val: .*set data.test = 'test' or"):
        halves(tmp_path)


def test_without_a_test_half_a_share_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "a/1.jpg", "b/1.jpg")
    with pytest.raises(DataError, match=r"data.test_share = 0.1"):
        halves(tmp_path)


def test_a_file_of_names_gives_the_order_of_the_classes(tmp_path: Path) -> None:
    write(tmp_path, *(f"{half}/{name}/1.jpg" for half in ("train", "test") for name in "ab"))
    (tmp_path / "names").write_text("b\na\n")
    found = halves(tmp_path, class_names_file="names")
    assert found.train.class_names == ("b", "a")
    assert told(found.train, tmp_path) == ["train/a/1.jpg", "train/b/1.jpg"]
    assert found.train.labels.tolist() == [1, 0]


def test_files_that_are_no_pictures_are_noted(tmp_path: Path) -> None:
    write(tmp_path, "train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg", "test/b/1.jpg")
    (tmp_path / "train/a/Thumbs.db").write_text("")
    (note,) = halves(tmp_path).notes
    assert "train: 1 file is left out, by name no picture or in the folder of no class" in note
    assert note.endswith("such as a/Thumbs.db")


def test_contents_are_told_apart_by_names_sizes_and_classes(tmp_path: Path) -> None:
    write(tmp_path, *(f"{half}/{name}/1.jpg" for half in ("train", "test") for name in "ab"))
    first = halves(tmp_path).contents
    (tmp_path / "train").rename(tmp_path / "moved")
    assert halves(tmp_path, train=("moved",)).contents.same_as(first)
    (tmp_path / "moved/a/1.jpg").rename(tmp_path / "moved/a/2.jpg")
    assert not halves(tmp_path, train=("moved",)).contents.same_as(first)


def test_broken_pictures_stop_or_are_skipped(tmp_path: Path) -> None:
    write(
        tmp_path,
        *(f"{half}/{name}/{i}.jpg" for half in ("train", "test") for name in "ab" for i in "12"),
    )
    broken = tmp_path / "train/b/1.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    with pytest.raises(BrokenPicture, match=r"train/b/1.jpg: cannot be decoded"):
        halves(tmp_path).train.picture(1)
    train = halves(tmp_path, decoding=DecodingRules(skip=True)).train
    assert train.labels[1] == train.labels[3] == 1
    assert np.array_equal(train.picture(1), train.picture(3))


@pytest.mark.skipif(not HAND_SIGNS.exists(), reason=f"{HAND_SIGNS} is not there")
def test_the_hand_signs_are_read(tmp_path: Path) -> None:
    with tarfile.open(HAND_SIGNS) as tar:
        pictures = [member for member in tar if member.name.endswith(".JPG")]
        large = next(member for member in pictures if member.size > 100_000)
        tar.extractall(tmp_path, [large, *pictures[:3], *pictures[-4:]], filter="data")
    root = tmp_path / "hand-signs"
    plain = halves(root, test_share=0.5)
    turned = halves(root, test_share=0.5, decoding=DecodingRules(exif=True))
    sides = set()
    for half, other in ((plain.train, turned.train), (plain.test, turned.test)):
        for row in range(len(half)):
            picture, upright = half.picture(row), other.picture(row)
            sides.add(picture.shape)
            assert np.array_equal(upright, np.rot90(picture, -(len(picture) > 100)))
    assert sides == {(100, 100, 3), (3024, 3024, 3)}
