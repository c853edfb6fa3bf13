from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.hdf5 import open_hdf5
from knltrain.errors import DataError

from .written import check, pictures

h5py = pytest.importorskip("h5py")
SHARED = Path(__file__).parents[4].parent / "shared/data/caffe"


def write(path: Path, how: object = {}, **arrays: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **(how if name == "data" else {}))


def planar(pixels: np.ndarray) -> np.ndarray:
    return pixels.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("scale", [1, 255])
def test_floats_become_the_bytes_that_they_were(tmp_path: Path, scale: int) -> None:
    pixels, labels = pictures(7)
    pixels[0] = 0  # whole numbers in both scales
    data = planar(pixels).astype(np.float32) / np.float32(scale)
    write(tmp_path / "train.h5", data=data, label=labels[:, None].astype(np.float32))
    check(open_hdf5(DataFiles(tmp_path), "train"), pixels, labels)
    assert open_hdf5(DataFiles(tmp_path), "test") is None


@pytest.mark.parametrize("how", [{}, {"compression": "gzip"}, {"chunks": (1, 3, 5, 6)}], ids=str)
def test_bytes_are_mapped_where_they_lie_in_one_piece(tmp_path: Path, how: dict) -> None:
    pixels, labels = pictures(7)
    write(tmp_path / "train.hdf5", how, data=planar(pixels)[:, ::-1], label=labels)
    source = open_hdf5(DataFiles(tmp_path, channel_order="bgr"), "train")
    check(source, pixels, labels)
    assert bool(source.held_bytes) is bool(how)


def test_lists_of_files_and_other_labels(tmp_path: Path) -> None:
    pixels, labels = pictures(6)
    write(tmp_path / "a.h5", data=planar(pixels[:2]), other=labels[:2])
    write(tmp_path / "b.h5", data=planar(pixels[2:]), other=labels[2:])
    (tmp_path / "train_list.txt").write_text(f"a.h5\n\n{tmp_path}/b.h5\n")
    source = open_hdf5(DataFiles(tmp_path, label="other"), "train")
    check(source, pixels, labels)
    (tmp_path / "train_list.txt").write_text("a.h5\nc.h5")
    with pytest.raises(DataError, match=r"train_list\.txt, line 2: 'c\.h5' is no file"):
        open_hdf5(DataFiles(tmp_path), "train")


def test_other_files_are_refused(tmp_path: Path) -> None:
    pixels, labels = pictures(2)
    path = tmp_path / "train.h5"
    write(path, data=planar(pixels), target=labels)
    with pytest.raises(DataError, match=r"holds data \(2, 3, 5, 6\) uint8, target .*and label;"):
        open_hdf5(DataFiles(tmp_path), "train")
    write(path, data=planar(pixels).astype(np.int32), label=labels)
    with pytest.raises(DataError, match="data: images are int32, expected uint8"):
        open_hdf5(DataFiles(tmp_path), "train")
    content = path.read_bytes()
    for kept in (0, 100, len(content) // 2):
        path.write_bytes(content[:kept])
        with pytest.raises(DataError, match=r"train\.h5: no whole HDF5 file"):
            open_hdf5(DataFiles(tmp_path), "train")


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.h5").touch()
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(DataError, match=r"pip install 'knltrain\[hdf5\]'"):
        open_hdf5(DataFiles(tmp_path), "train")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs files of Caffe in ../shared/data/caffe")
def test_a_single_label_is_told_as_one(tmp_path: Path) -> None:
    write(tmp_path / "train.h5", data=planar(pictures(2)[0]), label=np.int64(3))
    with pytest.raises(DataError, match=r"train.h5: labels have shape \(\)"):
        open_hdf5(DataFiles(tmp_path), "train")


@pytest.mark.parametrize(
    ("name", "label", "message"),
    [
        ("sample_data_2_gzip.h5", None, "values from 2400 to 4799 are neither whole numbers"),
        ("solver_data.h5", "targets", r"values from -3\.42013 to 3\.86125 are neither"),
        ("solver_data.h5", None, "holds data .* expected data"),
    ],
)
def test_features_of_caffes_own_tests_are_told_from_pictures(
    name: str, label: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        open_hdf5(DataFiles(SHARED, train=(name,), label=label), "train")


@pytest.mark.parametrize("way", ["link", "storage", "virtual"])
def test_values_in_other_files_are_refused(tmp_path: Path, way: str) -> None:
    pixels, labels = pictures(6)
    write(tmp_path / "other.h5", data=planar(pixels))
    write(tmp_path / "train.h5", label=labels)
    shape = planar(pixels).shape
    with h5py.File(tmp_path / "train.h5", "a") as file:
        if way == "link":
            file["data"] = h5py.ExternalLink("other.h5", "/data")
        elif way == "storage":
            file.create_dataset("data", shape, "u1", external=str(tmp_path / "raw"))
        else:
            layout = h5py.VirtualLayout(shape, "u1")
            layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "data", shape)
            file.create_virtual_dataset("data", layout)
    with pytest.raises(DataError, match=r"train\.h5: the values of 'data' lie in another file"):
        open_hdf5(DataFiles(tmp_path), "train")
