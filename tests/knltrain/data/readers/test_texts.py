"""Texts come back from the arrays that keep them."""

from __future__ import annotations

import os

from knltrain.data.readers.texts import Texts, shown


def test_texts_come_back_whatever_their_bytes() -> None:
    texts = ["", "a b", "猫/1.jpg", os.fsdecode(b"\xff\xfe.jpg"), ""]
    kept = Texts.of(texts)
    assert [kept[number] for number in range(len(kept))] == texts
    assert len(Texts.of([])) == 0


def test_bytes_that_are_no_text_are_shown_by_number() -> None:
    assert shown(os.fsdecode(b"caf\xe9")) == r"caf\xe9"
    assert shown("café") == "café"
