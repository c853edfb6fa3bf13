"""Classes are matched by their names, whatever their order."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.contents import contents_of
from knltrain.data.relabelled import told, with_classes_of
from knltrain.data.source import ArraySource, LabelArray
from knltrain.errors import DataError

PIXELS = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3, 1)


def source_of(labels: LabelArray, names: tuple[str, ...]) -> ArraySource:
    return ArraySource(PIXELS, labels, names, contents_of(PIXELS, labels), "here")


def test_the_same_names_change_nothing() -> None:
    source = source_of(np.array([0, 1, 0, 1]), ("a", "b"))
    assert with_classes_of(source, ("a", "b"), "x") is source


def test_labels_get_the_numbers_of_their_names() -> None:
    source = source_of(np.array([0, 1, 2, 1]), ("a", "b", "c"))
    found = with_classes_of(source, ("c", "d", "a", "b"), "x")
    assert found.labels.tolist() == [2, 3, 0, 3]
    assert found.class_names == ("c", "d", "a", "b")
    assert np.array_equal(found.picture(3), PIXELS[3])
    out = np.zeros((2, 2, 3, 1), np.uint8)
    found.read(np.array([3, 0]), out)
    assert np.array_equal(out, PIXELS[[3, 0]])
    assert (found.size(), found.held_bytes) == ((2, 3), PIXELS.nbytes)
    assert (found.contents(), found.picture_name(1)) == (source.contents(), source.picture_name(1))


def test_targets_get_the_columns_of_their_names() -> None:
    targets = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.float32)
    found = with_classes_of(source_of(targets, ("a", "b")), ("b", "c", "a"), "x")
    assert found.labels.tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 1], [0, 0, 0]]


def test_unknown_classes_are_refused_by_name() -> None:
    source = source_of(np.array([0, 1, 2, 1]), ("a", "b", "c"))
    with pytest.raises(DataError, match=r"^x: .* the classes 'b', 'c': expected some of 'a', 'd'"):
        with_classes_of(source, ("a", "d"), "x")


@pytest.mark.parametrize(
    ("own", "model"), [(("a", "a", "b"), ("a", "b", "c")), (("a", "b", "c"), ("c", "a", "a"))]
)
def test_names_that_mean_two_classes_are_refused(
    own: tuple[str, ...], model: tuple[str, ...]
) -> None:
    with pytest.raises(DataError, match="several classes are called 'a'"):
        with_classes_of(source_of(np.array([0, 1, 2, 1]), own), model, "x")


def test_of_many_names_a_few_are_told() -> None:
    assert told(["a", "b"]) == "'a', 'b'"
    assert told([str(number) for number in range(12)]).endswith("'9' and 2 more")
