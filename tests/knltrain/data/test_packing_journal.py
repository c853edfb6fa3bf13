from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.data.packing_journal import Journal


def test_what_was_noted_is_known_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = Journal(path)
    assert not first.load("key")
    first.begin("key")
    first.note([3, 4], ([1], []), {"a.jpg": "broken"})
    first.note([5], ([1, 2], [7]), {"a.jpg": "broken", "b.jpg": "gone"})
    again = Journal(path)
    assert again.load("key")
    assert list(again.sizes) == [3, 4, 5]
    assert again.blocks == ([1, 2], [7])
    assert again.skipped == {"a.jpg": "broken", "b.jpg": "gone"}
    assert not Journal(path).load("another key")
    again.remove()
    assert not path.exists()


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_half_a_line_is_none_and_the_next_one_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    first = Journal(path)
    first.begin("key")
    first.note([3, 4], ([], []), {})
    first.note([5], ([], []), {})
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(path)
    assert again.load("key")
    assert list(again.sizes) == [3, 4]
    again.note([6], ([], []), {})
    last = Journal(path)
    assert last.load("key")
    assert list(last.sizes) == [3, 4, 6]
