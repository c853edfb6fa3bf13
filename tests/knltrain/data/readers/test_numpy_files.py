from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers import arrays
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.numpy_files import open_numpy, stored_arrays
from knltrain.errors import DataError

from .written import check, pictures


@pytest.mark.parametrize("names", ["x_{}, y_{}", "{}_images, {}_labels"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_the_arrays_of_one_file_are_told_by_shape_and_name(
    tmp_path: Path, names: str, is_compressed: bool
) -> None:
    halves = {"train": pictures(7), "test": pictures(3, seed=1)}
    arrays = {
        name: array
        for half, pair in halves.items()
        for name, array in zip(names.format(half, half).split(", "), pair, strict=True)
    }
    save = np.savez_compressed if is_compressed else np.savez
    save(tmp_path / "all.npz", **arrays)
    for half, (pixels, labels) in halves.items():
        source = open_numpy(DataFiles(tmp_path), half)
        check(source, pixels, labels)
        assert source.held_bytes == (pixels.nbytes if is_compressed else 0)


def test_pairs_of_npy_files_are_mapped(tmp_path: Path) -> None:
    pixels, labels = pictures(6, channels=1)
    np.save(tmp_path / "train_images.npy", pixels[..., 0])
    np.save(tmp_path / "train_labels.npy", labels[:, None])
    source = open_numpy(DataFiles(tmp_path), "train")
    check(source, pixels, labels)
    assert source.held_bytes == 0
    assert open_numpy(DataFiles(tmp_path), "test") is None
    np.save(tmp_path / "columns.npy", np.asfortranarray(pixels))
    files = DataFiles(tmp_path, train=("columns.npy", "train_labels.npy"))
    check(open_numpy(files, "train"), pixels, labels)


def test_a_file_for_each_half(tmp_path: Path) -> None:
    for half, count in (("train", 7), ("test", 3)):
        pixels, labels = pictures(count)
        np.savez(tmp_path / f"{half}.npz", images=pixels[..., ::-1], labels=labels)
    for half, count in (("train", 7), ("test", 3)):
        files = DataFiles(tmp_path, train=("train.npz",), test=("test.npz",), channel_order="bgr")
        check(open_numpy(files, half), *pictures(count))


def test_arrays_that_are_not_a_pair_are_listed(tmp_path: Path) -> None:
    pixels, labels = pictures(2)
    np.savez(tmp_path / "a.npz", one=pixels, two=pixels, labels=labels)
    with pytest.raises(DataError, match=r"a\.npz: one uint8 \(2, 5, 6, 3\); .*expected one array"):
        open_numpy(DataFiles(tmp_path), "train")
    np.savez(tmp_path / "a.npz", train=pixels)
    with pytest.raises(DataError, match=r"one of labels \(N,\)"):
        open_numpy(DataFiles(tmp_path), "train")


def test_floats_are_refused_with_a_hint(tmp_path: Path) -> None:
    pixels, labels = pictures(2)
    np.savez(tmp_path / "a.npz", images=pixels / 255, labels=labels)
    with pytest.raises(
        DataError, match=r"a\.npz: images float64 .*expected uint8.*\* 255\)\.round"
    ):
        open_numpy(DataFiles(tmp_path), "train")


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_damaged_files_are_named(tmp_path: Path, suffix: str) -> None:
    path, (pixels, labels) = tmp_path / f"train{suffix}", pictures(4)
    if suffix == ".npz":
        np.savez_compressed(path, images=pixels, labels=labels)
    else:
        np.save(path, pixels)
        np.save(tmp_path / "train_labels.npy", labels)
    content = path.read_bytes()
    for kept in range(0, len(content), 17):
        path.write_bytes(content[:kept])
        with pytest.raises(DataError, match=rf"train{suffix}: no whole file of NumPy's"):
            open_numpy(DataFiles(tmp_path), "train")
    path.write_bytes(content.replace(content[-60:-50], bytes(10)) if suffix == ".npz" else b"PK")
    with pytest.raises(DataError, match="no whole file of NumPy's"):
        open_numpy(DataFiles(tmp_path), "train")


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.array([{"a": 1}], object))
    with pytest.raises(DataError, match="it holds Python objects, which are not read"):
        stored_arrays(tmp_path / "train.npy")


def test_names_tell_halves_by_whole_words(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros(3, np.uint8))
    (array,) = stored_arrays(tmp_path / "array.npy")
    for name, is_train, is_test in (
        ("X_train", True, False),
        ("testX", False, True),
        ("ytest", False, True),
        ("t10k-images", False, True),
        ("latest", False, False),
        ("constrained", False, False),
    ):
        named = replace(array, member=name)
        assert (named.is_of("train"), named.is_of("test")) == (is_train, is_test), name


def test_compressed_arrays_that_do_not_fit_into_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", images=pictures(4)[0], labels=np.arange(4))
    monkeypatch.setattr(arrays, "available_bytes", lambda: 100)
    with pytest.raises(DataError, match=r"a\.npz: its images take 360 B in memory"):
        open_numpy(DataFiles(tmp_path), "train")


def test_encrypted_and_unknown_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, images=pictures(4)[0], labels=np.arange(4))
    content = path.read_bytes()
    entry = content.index(b"PK\1\2")
    for place, value in ((8, 1), (10, 99), (6, 102)):  # flags, method, version of the first member
        damaged = bytearray(content)
        damaged[entry + place] = value
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="no whole file of NumPy's"):
            open_numpy(DataFiles(tmp_path), "train")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_without_images_are_told_as_such(tmp_path: Path, ending: str) -> None:
    images, labels = np.zeros((0, 5, 6), np.uint8), np.zeros(0, int)
    if ending == "npz":
        np.savez(tmp_path / "a.npz", images=images, labels=labels)
    else:
        np.save(tmp_path / "train_images.npy", images)
        np.save(tmp_path / "train_labels.npy", labels)
    with pytest.raises(DataError, match=rf"{ending}: there are no images"):
        open_numpy(DataFiles(tmp_path), "train")
