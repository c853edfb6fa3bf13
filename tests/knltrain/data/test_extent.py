"""Data that do not fit into memory are refused before they are there."""

from __future__ import annotations

import pytest

from knltrain.data import extent as module
from knltrain.data.extent import Extent, check_room
from knltrain.errors import DataError

SMALL = Extent(6, 4, (2, 3, 5))


@pytest.mark.parametrize(
    ("side", "shift", "values"),
    [
        (None, 0, 10 * 6 * 5),
        (4, 0, 10 * 6 * 5 + 10 * 16 * 5),
        (None, 1, 10 * 6 * 5 + 6 * 4 * 5 * 5),
        (4, 1, 10 * 6 * 5 + 10 * 16 * 5 + 6 * 36 * 5),
    ],
)
def test_bytes_are_those_of_all_arrays_that_are_there_at_once(
    side: int | None, shift: int, values: int
) -> None:
    assert SMALL.bytes_with(side, shift) == 4 * values


def test_fewer_images_are_asked_for_and_more_are_not_there() -> None:
    assert SMALL.first(3, None) == Extent(3, 4, (2, 3, 5))
    assert SMALL.first(None, 9) == SMALL


def test_images_that_do_not_fit_are_refused_with_the_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "available_bytes", lambda: 2 * SMALL.bytes_with(None, 0))
    check_room(SMALL, "synthetic", None, 0, copies=2)
    expected = (
        r"'synthetic': 6 training and 4 test images of 2 x 3 pixels take 1.2 KiB for each of 3 "
        r"workers, 3.5 KiB in all, and 2.3 KiB of memory are free: use fewer \(data.train_images"
    )
    with pytest.raises(DataError, match=expected):
        check_room(SMALL, "synthetic", None, 0, copies=3)
    with pytest.raises(DataError, match=r"images of 99 x 99 pixels take 1.9 MiB, and 2.3 KiB"):
        check_room(SMALL, "synthetic", 99, 0, copies=1)
