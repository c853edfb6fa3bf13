"""Pickles of arrays are read, and nothing that they name is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.data.readers.array_pickle import read_array_pickle
from knltrain.errors import DataError

ARRAYS = {
    "bytes": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(12, dtype=np.int64).reshape(3, 4)),
    "floats": np.array([0.5, 2.0], np.float32),
    "other_end": np.array([1, 2], ">i4"),
}
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\n"
    b"q\x04K\x00\x85U\x01b\x87Rq\x05(K\x01K\x01K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87R"
    b"q\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x03\x01\xfe\xfftb"
    b"U\x06labelsq\x08]q\t(K\x06K\x09eu."
)
"""As Python 2 wrote CIFAR: {data: uint8 (1,3), labels: [6, 9]}."""


class Trap:
    """What runs a command where it is unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_lists_and_texts_come_back(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({**ARRAYS, b"labels": [3, 4], "name": "ten"}, protocol))
    found = read_array_pickle(path)
    assert (found["labels"], found["name"]) == ([3, 4], "ten")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_pickle_of_python_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(PYTHON_2)
    found = read_array_pickle(path)
    assert found["labels"] == [6, 9]
    np.testing.assert_array_equal(found["data"], np.array([[1, 254, 255]], np.uint8))


def test_functions_are_refused_and_not_run(tmp_path: Path) -> None:
    path, made = tmp_path / "batch", tmp_path / "made"
    path.write_bytes(pickle.dumps({"data": Trap(made)}))
    with pytest.raises(DataError, match=r"batch: .*names posix\.mkdir, .*it is not run"):
        read_array_pickle(path)
    assert not made.exists()
    pickle.loads(path.read_bytes())  # the trap works
    assert made.exists()


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        {"data": np.array([{"a": 1}, None], object)},
        {"data": np.array(["text"])},
    ],
    ids=["list", "objects", "texts"],
)
def test_other_contents_are_refused(tmp_path: Path, value: object) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(value, 2))
    with pytest.raises(DataError, match="batch: no pickle of a dictionary of arrays"):
        read_array_pickle(path)


def test_no_cut_and_no_changed_byte_ends_in_anything_but_data_errors(tmp_path: Path) -> None:
    path, content = tmp_path / "batch", pickle.dumps({**ARRAYS, "labels": [1]}, 2)
    random = np.random.default_rng(3)
    refused = 0
    for number in range(300):
        damaged = bytearray(content)
        damaged[random.integers(len(damaged))] = random.integers(256)
        path.write_bytes(damaged[: random.integers(1, len(damaged))] if number % 2 else damaged)
        try:
            read_array_pickle(path)
        except DataError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 200


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none: cannot be read \(No such file"):
        read_array_pickle(tmp_path / "none")
