"""A training half that is there in any other form than the expected one is refused."""

from __future__ import annotations

import errno
import gzip
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knltrain.data.mnist_files import HalfFiles, t10k_half, training_half
from knltrain.errors import DataError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def write_idx(path: Path, *shape: int) -> None:
    size = 1
    for length in shape:
        size *= length
    path.write_bytes(struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(size))


def dangling(root: Path) -> None:
    (root / IMAGES).symlink_to("nowhere")
    write_idx(root / LABELS, 3)


def circular(root: Path) -> None:
    (root / IMAGES).symlink_to(IMAGES)
    (root / LABELS).symlink_to(LABELS)


def folder_of_that_name(root: Path) -> None:
    (root / IMAGES).mkdir()
    write_idx(root / IMAGES / IMAGES, 3, 2, 2)


def called(images: str, labels: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        write_idx(root / images, 3, 2, 2)
        write_idx(root / labels, 3)

    return write


def packed(name: str, *shape: int) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        write_idx(root / name, *shape)
        (root / name).write_bytes(gzip.compress((root / name).read_bytes()))

    return write


def in_folder(folder: str, put: Callable[[Path], None]) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        (root / folder).mkdir()
        put(root / folder)

    return write


def only(name: str, *shape: int) -> Callable[[Path], None]:
    return lambda root: write_idx(root / name, *shape)


@pytest.mark.parametrize(
    ("put", "found"),
    [
        (dangling, rf"{IMAGES} \(a link to nowhere, which is not there\), {LABELS}"),
        (circular, rf"{IMAGES} \(a link to {IMAGES}, which is not there\)"),
        (folder_of_that_name, rf"{IMAGES} \(a folder\)"),
        (called("train-images.idx3-ubyte", "train-labels.idx1-ubyte"), "train-images.idx3-ubyte"),
        (called(IMAGES.upper(), LABELS.upper()), "TRAIN-IMAGES-IDX3-UBYTE"),
        (called(f"{IMAGES}.GZ", f"{LABELS}.GZ"), rf"{IMAGES}\.GZ"),
        (called(f"{IMAGES}.gz.part", LABELS), rf"{IMAGES}\.gz\.part"),
        (called(f"{IMAGES} (1)", LABELS), rf"{IMAGES} \(1\)"),
        (called("trainimages", "trainlabels"), "trainimages, trainlabels"),
        (only(IMAGES, 3, 2, 2), IMAGES),
        (only(f"{LABELS}.GZ", 3), rf"{LABELS}\.GZ"),
        (only("mnist_train.csv", 3), "mnist_train.csv"),
        (lambda root: (root / "train").mkdir(), r"train \(a folder\)"),
        (only("TrainData.bin", 3), r"TrainData\.bin"),
        (only("traindata.gz", 3), r"traindata\.gz"),
        (called("trn-images-idx3-ubyte", LABELS), "trn-images-idx3-ubyte"),
        (called("60k-images-idx3-ubyte", LABELS), "60k-images-idx3-ubyte"),
        (called(f"{IMAGES}.txt", LABELS), rf"{IMAGES}\.txt"),
        (called(f"{IMAGES}.json", f"{LABELS}.log"), rf"{IMAGES}\.json, {LABELS}\.log"),
        (called("images.bin", LABELS), r"images\.bin"),
        (packed("mnist-images", 3, 2, 2), "mnist-images"),
        (in_folder("raw", called(IMAGES, LABELS)), f"raw/{IMAGES}, raw/{LABELS}"),
        (in_folder("raw", only("60k.bin", 3, 2, 2)), r"raw/60k\.bin"),
        (in_folder("raw", packed("TRAIN.IMAGES.GZ", 3, 2, 2)), r"raw/TRAIN\.IMAGES\.GZ"),
    ],
)
def test_training_half_in_another_form_is_refused_with_what_was_found_and_expected(
    tmp_path: Path, put: Callable[[Path], None], found: str
) -> None:
    put(tmp_path)
    expected = rf"expected {IMAGES}\[\.gz\] and {LABELS}\[\.gz\], found .*{found}"
    with pytest.raises(DataError, match=expected) as raised:
        training_half(tmp_path)
    assert "data.name = 'mnist-t10k'" in str(raised.value)


def test_nothing_of_a_training_half_is_none(tmp_path: Path) -> None:
    for name in (
        "training.log",
        "notes_on_training.txt",
        "strained",
        "train.yml",
        "160k",
        "TRAINED",
    ):
        (tmp_path / name).touch()
    for name in ("t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "test-images"):
        write_idx(tmp_path / name, 3, 2, 2)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train-1").touch()
    (tmp_path / "old").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert training_half(tmp_path) is None


def test_what_may_not_be_looked_into_is_nothing_of_it(open_folder: Path) -> None:
    root, hidden = open_folder / "mnist", open_folder / "hidden"
    for folder in (root, root / "lost+found", root / "listed", hidden):
        folder.mkdir()
    for path in (hidden / "images", root / "listed" / "train.bin"):
        write_idx(path, 3)
    for name in ("images", "unknown"):
        (root / name).symlink_to(hidden / name)
    for folder, mode in ((root / "lost+found", 0o700), (root / "listed", 0o744), (hidden, 0o700)):
        folder.chmod(mode)
    with as_another_user():
        assert training_half(root) is None


def test_labels_alone_are_nothing_to_learn_from(tmp_path: Path) -> None:
    only(f"{LABELS}.gz", 3)(tmp_path)
    assert training_half(tmp_path) is None


def test_file_that_can_be_used_is_taken_whatever_lies_beside_it(tmp_path: Path) -> None:
    called(f"{IMAGES}.gz", f"{LABELS}.gz")(tmp_path)
    (tmp_path / IMAGES).symlink_to("nowhere")
    assert training_half(tmp_path) == HalfFiles(
        tmp_path / f"{IMAGES}.gz", tmp_path / f"{LABELS}.gz"
    )


def test_missing_half_says_what_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"t10k-images.* is missing .*a link to nowhere"):
        t10k_half(tmp_path)


def test_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist.zip").touch()
    with pytest.raises(DataError, match=r"mnist.zip: cannot be read \(Not a directory\)"):
        t10k_half(tmp_path / "mnist.zip")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may get to, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def as_another_user() -> Iterator[None]:
    """Root may enter any folder."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    ("mode", "find", "named"),
    [(0o644, t10k_half, "/t10k-images-idx3-ubyte"), (0o311, training_half, "")],
    ids=["enter", "list"],
)
def test_folder_that_may_not_be_entered_or_listed_is_told_as_such(
    open_folder: Path, mode: int, find: Callable[[Path], object], named: str
) -> None:
    root = open_folder / "mnist"
    root.mkdir()
    called("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")(root)
    root.chmod(mode)
    with as_another_user(), pytest.raises(DataError) as raised:
        find(root)
    assert str(raised.value).startswith(f"{root}{named}: cannot be read (Permission denied)")
    root.chmod(0o755)


def test_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called(IMAGES, LABELS)(tmp_path)
    half = training_half(tmp_path)
    assert half is not None

    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=rf"{IMAGES}: cannot be read \(Permission denied\)"):
        half.shape()


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        ((0, 2, 2), (0,), rf"{IMAGES}: its header \(0, 2, 2\) tells of no images"),
        ((3, 0, 2), (3,), rf"{IMAGES}: its header \(3, 0, 2\) tells of no pixels"),
        ((3, 2, 2), (0,), rf"{LABELS}: its header \(0,\) tells of no labels"),
        ((3, 2, 2), (4,), rf"{IMAGES} holds 3 images, but .*{LABELS} 4 labels"),
        ((3, 2), (3,), rf"{IMAGES}: has 2 dimensions, expected 3"),
        ((3, 2, 2), (3, 1), rf"{LABELS}: has 2 dimensions, expected 1"),
    ],
)
def test_headers_that_are_of_no_half_are_refused(
    tmp_path: Path, images: tuple[int, ...], labels: tuple[int, ...], message: str
) -> None:
    write_idx(tmp_path / IMAGES, *images)
    write_idx(tmp_path / LABELS, *labels)
    with pytest.raises(DataError, match=message):
        HalfFiles(tmp_path / IMAGES, tmp_path / LABELS).shape()
