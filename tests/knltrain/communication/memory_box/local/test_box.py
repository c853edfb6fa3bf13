"""Which buffers lie in a box, and who finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox
from knltrain.errors import SegmentError

ROOM = 2**20
SIZE = 1000


def numbers(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(size).standard_normal(size, np.float32)


def content(buffer: Buffer) -> np.ndarray:
    found = np.empty(buffer.size, buffer.dtype)
    buffer.read(found)
    return found


def test_new_buffer_is_zero_and_known_by_its_key(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    assert not content(made).any()
    made.write(numbers())
    assert np.array_equal(content(box.open(made.key)), numbers())


@pytest.mark.parametrize("change", [1, 1024, -1])
def test_wrong_keys_open_nothing(box: SoftMemoryBox, change: int) -> None:
    made = box.create_buffer(SIZE)
    with pytest.raises(SegmentError, match=r"opens no buffer of this box: expected one that"):
        box.open(made.key + change)


def test_key_of_one_box_opens_nothing_in_another(box: SoftMemoryBox) -> None:
    key = box.create_buffer(SIZE).key
    with SoftMemoryBox.create(ROOM) as other:
        other.create_buffer(SIZE)
        with pytest.raises(SegmentError, match="opens no buffer"):
            other.open(key)


def test_freed_memory_is_used_again_and_zero(box: SoftMemoryBox) -> None:
    first = box.create_buffer(ROOM // 4 - 1024)
    first.write(np.ones(first.size, np.float32))
    with pytest.raises(SegmentError, match=r"no room for .* bytes: .* taken; free buffers"):
        box.create_buffer(ROOM // 4 - 1024)
    first.free()
    assert not content(box.create_buffer(ROOM // 4 - 1024)).any()


def test_nothing_but_a_box_is_attached(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"x" * 5000)
    with path.open("rb") as file, pytest.raises(SegmentError, match="is no box"):
        SoftMemoryBox.attach(file.fileno())


def test_closed_box_says_so() -> None:
    box = SoftMemoryBox.create(ROOM)
    made = box.create_buffer(SIZE)
    box.close()
    box.close()  # as often as one likes
    for use in (lambda: box.create_buffer(SIZE), lambda: box.open(made.key), lambda: box.address):
        with pytest.raises(SegmentError, match="the box is closed"):
            use()


def test_descriptor_that_is_not_open_is_told() -> None:
    with pytest.raises(SegmentError, match="is no box: Bad file descriptor"):
        SoftMemoryBox.attach(10**6)


def test_no_room_is_told_before_anything_is_made() -> None:
    with pytest.raises(SegmentError, match=r"bytes free"):
        SoftMemoryBox.create(2**50)
