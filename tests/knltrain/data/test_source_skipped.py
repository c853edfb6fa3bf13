"""Broken pictures that were passed over are counted once and named."""

from __future__ import annotations

from knltrain.data.source import Skipped


def test_pictures_count_once_and_the_first_is_named() -> None:
    skipped = Skipped()
    assert not skipped
    skipped.add({"a.jpg": "a.jpg: cannot be decoded (cut): expected a whole picture; fetch it"})
    assert str(skipped) == ("1 broken picture was skipped, such as a.jpg: cannot be decoded (cut)")
    skipped.add({"b.jpg": "b.jpg: is empty", "a.jpg": "a.jpg: cannot be decoded (cut)"})
    assert str(skipped).startswith("2 broken pictures were skipped, such as a.jpg: cannot be")
