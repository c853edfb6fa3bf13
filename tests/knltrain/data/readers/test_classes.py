"""Labels are numbers, or names of classes; what is neither is told with its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.readers.classes import (
    class_names_in,
    classes_by_name,
    numbered_labels,
    sorted_names,
)
from knltrain.data.readers.files import DataFiles
from knltrain.errors import DataError

CODES = np.array([1, 0, 1, 2])


def labels(texts: list[str], names: tuple[str, ...] = (), first_label: int = 0) -> list[int]:
    return numbered_labels(texts, CODES, names, first_label, lambda row: f"line {row + 1}").tolist()


def test_numbers_count_from_the_first_label() -> None:
    assert labels(["7", "+2", "0"]) == [2, 7, 2, 0]
    assert labels(["7", "2", "1"], first_label=1) == [1, 6, 1, 0]
    assert labels(["7", "2", "1"], ("cat", "dog")) == [2, 7, 2, 1]
    with pytest.raises(DataError, match="line 1: label 0 at index 3 is no class"):
        labels(["7", "2", "0"], first_label=1)
    with pytest.raises(DataError, match="label -2 at index 0"):
        labels(["7", "-2", "0"])


def test_names_are_places_in_a_list() -> None:
    assert labels(["dog", "cat", "ant"], ("ant", "cat", "dog")) == [1, 2, 1, 0]
    assert labels(["10", "2", "0"], ("0", "10", "2")) == [2, 1, 2, 0]
    assert sorted_names(["b", "B", "ä", "a"]) == ("B", "a", "b", "ä")


def test_an_unknown_name_is_told_with_its_place() -> None:
    with pytest.raises(DataError, match=r"line 4: unknown class 'cow'.*did you mean 'crow'"):
        labels(["dog", "cat", "cow"], ("dog", "cat", "crow"))
    many = ("dog", "cat", *map(str, range(50)))
    with pytest.raises(DataError, match="line 4: unknown class 'cow': expected one of the 52"):
        labels(["dog", "cat", "cow"], many)


def test_numbers_are_no_places_in_names_that_files_have_of_the_training_half(
    tmp_path: Path,
) -> None:
    def of(texts: list[str], training: list[str], **settings: bool) -> list[int]:
        given = DataFiles(tmp_path), texts, CODES, lambda: training
        found, names = classes_by_name(*given, lambda row: f"line {row + 1}", **settings)
        assert not names or names == tuple(sorted(training))
        return found.tolist()

    assert of(["2", "1", "0"], ["0", "1", "2"]) == [1, 2, 1, 0]
    assert of(["b", "a", "c"], ["a", "b", "c"]) == [0, 1, 0, 2]
    with pytest.raises(DataError, match="line 2: unknown class '0': expected one of 'cat', 'dog'"):
        of(["0", "1", "1"], ["dog", "cat"])
    with pytest.raises(DataError, match="line 2: unknown class '7'"):
        of(["7", "7", "7"], ["0", "1", "10"], may_count=False)
    with pytest.raises(DataError, match="line 2: label 'cat': expected a whole number"):
        of(["cat", "1", "0"], ["0", "1"])
    (tmp_path / "classes.txt").write_text("dog\ncat\n", encoding="utf-8")
    (found, names) = classes_by_name(
        DataFiles(tmp_path), ["1", "0"], CODES[:3], list, str, may_count=False
    )
    assert (found.tolist(), names) == ([0, 1, 0], ("dog", "cat"))


def test_names_are_read_from_a_file(tmp_path: Path) -> None:
    assert class_names_in(tmp_path, None) == ()
    (tmp_path / "classes.txt").write_text("\ufeffcat \n\ndog, big\n", encoding="utf-8")
    assert class_names_in(tmp_path, None) == ("cat", "dog, big")
    (tmp_path / "other.txt").write_text("1\n2\n", encoding="utf-8")
    assert class_names_in(tmp_path, "other.txt") == ("1", "2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cat\n", "names 1 classes: expected two or more"),
        (b"cat\ndog\ncat\n", "names class 'cat' twice"),
        (b"caf\xe9\ndog\n", "cannot be read .*UTF-8"),
    ],
)
def test_files_without_good_names_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(content)
    with pytest.raises(DataError, match=message):
        class_names_in(tmp_path, "names")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"names: cannot be read .*data.class_names"):
        class_names_in(tmp_path, "names")
