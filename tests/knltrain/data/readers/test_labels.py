from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.readers.labels import MOST_CLASSES, as_labels, class_counts, classes_of
from knltrain.errors import DataError


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 2, 1], np.uint8), [0, 2, 1]),
        (np.array([[3.0], [0.0]], np.float32), [3, 0]),
        (np.array([True, False]), [1, 0]),
    ],
)
def test_whole_numbers_become_classes(values: np.ndarray, expected: list[int]) -> None:
    labels = as_labels(values, "here")
    assert labels.dtype == np.int64
    assert labels.tolist() == expected


def test_labels_that_count_from_another_number_are_moved() -> None:
    assert as_labels(np.array([1, 26], np.uint8), "here", 1).tolist() == [0, 25]


def test_several_targets_an_image_stay_targets() -> None:
    labels = as_labels(np.array([[0, 1, 1], [0, 0, 0]], np.uint8), "here")
    assert labels.dtype == np.float32
    assert labels.tolist() == [[0, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("values", "first", "message"),
    [
        ([0.0, 0.5], 0, "here: label 0.5 at index 1 is no class"),
        ([1, 0, -1], 0, "label -1 at index 2"),
        ([1, 0], 1, "label 0 at index 1 .* data.first_label = 1"),
        ([float("nan")], 0, "label nan at index 0"),
        ([float("inf")], 0, "label inf at index 0"),
        ([0, MOST_CLASSES], 0, "label 1048576 at index 1"),
        (["cat"], 0, "type <U3"),
        ([[[1]]], 0, r"shape \(1, 1, 1\)"),
        (1, 0, r"shape \(\)"),
    ],
)
def test_other_labels_are_refused_with_their_place(
    values: object, first: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        as_labels(np.array(values), "here", first)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_targets_that_are_no_numbers_are_refused_with_their_place(value: float) -> None:
    with pytest.raises(DataError, match=r"here: targets at index 1 are .*\(1 of 2 are wrong\)"):
        as_labels(np.array([[0, 1], [value, 0]], np.float32), "here")


def test_classes_are_counted_over_both_halves() -> None:
    classes = np.array([0, 2, 2]), np.array([4])
    assert classes_of(*classes) == 5
    assert class_counts(classes[0], 4).tolist() == [1, 0, 2, 0]
    targets = np.array([[0, 1, 1], [0, 0, 0.6]], np.float32)
    assert classes_of(targets) == 3
    assert class_counts(targets, 3).tolist() == [0, 1, 2]
