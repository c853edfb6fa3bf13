"""Data that do not fit into memory are refused before they are there."""

from __future__ import annotations

import pytest

from knltrain.data import extent as module
from knltrain.data.extent import Extent, check_room
from knltrain.errors import DataError

SMALL = Extent(6, 4, (2, 3, 5))


def test_bytes_are_those_of_all_pictures() -> None:
    assert SMALL.bytes == 10 * 6 * 5
    assert Extent(6, 4, (2, 3, 5), held=(False, True)).bytes == 4 * 6 * 5


def test_fewer_images_are_asked_for_and_more_are_not_there() -> None:
    assert SMALL.first(3, None) == Extent(3, 4, (2, 3, 5))
    assert SMALL.first(None, 9) == SMALL


def test_images_that_do_not_fit_are_refused_with_the_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "available_bytes", lambda: 2 * SMALL.bytes)
    check_room(SMALL, "synthetic", copies=2)
    expected = (
        r"'synthetic': 6 training and 4 test images of 2 x 3 pixels take 300 B and, while workers "
        r"are given them, 900 B, and 600 B of memory are free: use fewer \(data.train_images"
    )
    with pytest.raises(DataError, match=expected):
        check_room(SMALL, "synthetic", copies=3)
