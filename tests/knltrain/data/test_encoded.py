"""A source of encoded pictures decodes them, and passes over broken ones if it is to."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.contents import HalfContents
from knltrain.data.encoded import DecodingRules, EncodedPictures, EncodedSource
from knltrain.data.readers.parts import joined
from knltrain.data.relabelled import with_classes_of
from knltrain.data.source import SKIPPED, ImageSource
from knltrain.errors import BrokenPicture, DataError

from .pictures import jpeg, texture

GOOD = [jpeg(texture(16, 24, seed)) for seed in range(8)]
LABELS = [0, 1, 0, 1, 0, 1, 0, 2]


@pytest.fixture(autouse=True)
def nothing_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SKIPPED, "reasons", {})


class InMemory(EncodedPictures):
    def __init__(self, broken: tuple[int, ...]) -> None:
        self._broken = broken

    def data(self, row: int) -> bytes:
        return GOOD[row][:-30] if row in self._broken else GOOD[row]

    def name(self, row: int) -> str:
        return f"{row}.jpg"


def source(*broken: int, skip: bool = True, labels: object = LABELS) -> EncodedSource:
    contents = HalfContents(8, (0, 0, 3), "")
    rules = DecodingRules(skip=skip)
    found = np.array(labels)
    return EncodedSource(InMemory(broken), found, ("a", "b", "c"), 3, contents, rules)


def test_pictures_are_decoded_as_they_are_asked_for() -> None:
    found = source()
    assert (len(found), found.image_shape, found.channels, found.held_bytes) == (8, None, 3, 0)
    assert np.abs(found.picture(3).astype(int) - texture(16, 24, 3)).mean() < 3
    assert found.picture(3, least=(8, 12)).shape == (8, 12, 3)
    buffer = np.zeros(16 * 24 * 3, np.uint8)
    assert np.shares_memory(found.picture(3, buffer=buffer), buffer)
    assert found.picture_name(3) == "3.jpg"
    assert not SKIPPED


def test_a_broken_picture_stops_all_unless_it_is_to_be_skipped() -> None:
    with pytest.raises(BrokenPicture, match=r"^2.jpg: cannot be decoded.*data.broken = 'skip'"):
        source(2, skip=False).picture(2)


@pytest.mark.parametrize(
    ("broken", "row", "place"), [((2,), 2, 4), ((2, 4), 2, 6), ((6,), 6, 0), ((1, 3), 3, 5)]
)
def test_the_next_good_picture_with_the_same_label_takes_the_place_of_a_broken_one(
    broken: tuple[int, ...], row: int, place: int
) -> None:
    found = source(*broken)
    for _ in range(2):
        assert np.array_equal(found.picture(row), source().picture(place))
    passed_over = {each for each in broken if each >= row}
    assert set(SKIPPED.reasons) == {f"{each}.jpg" for each in passed_over}


def test_targets_count_as_labels() -> None:
    targets = np.eye(3, dtype=np.float32)[LABELS]
    found = source(1, labels=targets)
    assert np.array_equal(found.picture(1), source().picture(3))


def test_a_label_without_a_good_picture_stops_all() -> None:
    with pytest.raises(BrokenPicture, match=r"7.jpg: .* none of the 0 next pictures"):
        source(7).picture(7)
    with pytest.raises(BrokenPicture, match=r"1.jpg: .* none of the 2 next pictures"):
        source(1, 3, 5).picture(1)


def test_a_size_is_that_of_all_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source().size() == (16, 24)
    other = jpeg(texture(20, 30))
    monkeypatch.setattr(InMemory, "data", lambda _self, row: other if row == 5 else GOOD[row])
    with pytest.raises(DataError, match=r"0.jpg has 16 x 24 .*5.jpg has 20 x 30: .*side_pixels"):
        source().size()


def test_a_size_is_told_without_broken_pictures_if_they_are_skipped() -> None:
    class Empty(EncodedPictures):
        def __init__(self, good: int) -> None:
            self._good = good

        def data(self, row: int) -> bytes:
            return GOOD[row] if row == self._good else b""

        def name(self, row: int) -> str:
            return f"{row}.jpg"

    found = source()
    for good in (3, 7):
        found.pictures = Empty(good)
        assert found.size() == (16, 24)
    found.pictures = Empty(8)
    with pytest.raises(BrokenPicture, match=r"7.jpg: is empty"):
        found.size()
    found.rules = DecodingRules()
    with pytest.raises(BrokenPicture, match=r"0.jpg: is empty"):
        found.size()


def test_pictures_that_are_chosen_are_replaced_by_each_other_alone() -> None:
    found = source(2, 6).chosen(np.array([6, 3, 0]))
    assert (found.labels.tolist(), found.picture_name(1)) == ([0, 1, 0], "3.jpg")
    assert np.array_equal(found.picture(0), source().picture(0))
    assert found.contents() != source().chosen(np.array([6, 3, 1])).contents()
    with pytest.raises(BrokenPicture, match=r"none of the 1 next pictures"):
        source(2, 6).chosen(np.array([6, 2])).picture(0)


@pytest.mark.parametrize("kind", ["one", "several", "chosen again", "other labels"])
def test_no_picture_of_the_other_half_takes_the_place_of_a_broken_one(kind: str) -> None:
    """Of pictures 0, 1 and 5 one is broken: 5 takes its place, not 3, which has its label, too."""
    rows, broken = np.array([0, 1, 5]), 1
    whole: ImageSource = source(broken)
    if kind == "other labels":
        whole = with_classes_of(whole, ("c", "b", "a"), "x")
    elif kind != "one":
        whole, rows = joined([source(), whole]), np.array([13, 9, 0])
    found = whole.chosen(rows)
    if kind == "chosen again":
        found = found.chosen(np.array([2, 1, 0])).chosen(np.array([2, 1, 0]))
    assert found.labels.tolist() == whole.labels[rows].tolist()
    for place, row in enumerate(rows.tolist()):
        good = 5 if row % 8 == broken else row % 8
        assert np.array_equal(found.picture(place), source().picture(good))
    assert found.class_names == whole.class_names
