"""What every box promises, as programs of one process; `CONTRACT` names them.

As a program under mpiexec it tries them on a box across nodes, at rank 0:
`mpiexec -n 2 python -m mpi4py box_contract.py`, and prints what came of each as JSON.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable

import numpy as np
import pytest

from knltrain.communication.memory_box.interface import Box, SharedBuffer
from knltrain.errors import ExchangeTimeout, SegmentError

ROOM = 2**20
SIZE = 1000


def numbers(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(size).standard_normal(size, np.float32)


def content(buffer: SharedBuffer) -> np.ndarray:
    found = np.full(buffer.size, 99, buffer.dtype)
    buffer.read(found)
    return found


def new_buffer_is_zero_and_known_by_its_key(box: Box) -> None:
    made = box.create_buffer(SIZE)
    assert not content(made).any()
    made.write(numbers())
    assert np.array_equal(content(box.open(made.key)), numbers())
    made.free()


def wrong_keys_open_nothing(box: Box) -> None:
    made = box.create_buffer(SIZE)
    for key in (made.key + 1, made.key + 1024, made.key - 1, 0, -1):
        with pytest.raises(SegmentError, match=r"opens no buffer of this box: expected one that"):
            box.open(key)
    made.free()


def parts_are_read_and_written_where_they_lie(box: Box) -> None:
    made = box.create_buffer(SIZE)
    made.write(numbers(10), offset=990)
    made.write(numbers(20), offset=490)
    part = np.empty(20, np.float32)
    made.read(part, offset=980)
    assert np.array_equal(part, [*np.zeros(10), *numbers(10)])
    made.read(part, offset=490)
    assert np.array_equal(part, numbers(20))
    spread = np.zeros(40, np.float32)
    made.read(spread[::2], offset=490)
    assert np.array_equal(spread[::2], numbers(20))
    assert not spread[1::2].any()
    made.free()


def whole_numbers_can_be_counters(box: Box) -> None:
    made = box.create_buffer(4, np.int64)
    made.write(np.array([2**53 + 1], np.int64), offset=3)
    assert content(made).tolist() == [0, 0, 0, 2**53 + 1]
    made.free()


def vector_operations_equal_numpy(box: Box) -> None:
    for size in (1, 17, SIZE, 30_001):
        for private in (False, True):
            target, source = box.create_buffer(size), box.create_buffer(size, private=private)
            first, second = numbers(size), numbers(size + 1)[:size]
            target.write(first)
            source.write(second)
            target.accumulate(source)
            assert np.array_equal(content(target), first + second)
            target.scale(0.3)
            scaled = (first + second) * np.float32(0.3)
            assert np.array_equal(content(target), scaled)
            target.axpby(0.7, source, -2.0)
            expected = np.float32(0.7) * scaled + np.float32(-2.0) * second
            assert np.array_equal(content(target), expected)
            source.accumulate(target)
            assert np.array_equal(content(source), second + expected)
            target.free()
            source.free()


def events_count_since_they_were_last_asked_for(box: Box) -> None:
    made = box.create_buffer(SIZE)
    other = box.open(made.key)
    for _ in range(3):
        other.notify(2)
    assert made.wait(2) == 3
    other.notify(2)
    assert made.wait(2) == 1
    made.free()


def event_that_does_not_happen_ends_the_wait_in_time(box: Box) -> None:
    made = box.create_buffer(SIZE)
    made.notify(1)
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.1 s in vain for event 0 of the buffer"):
        made.wait(0, timeout_seconds=0.1)
    made.free()


def freed_buffer_is_closed_to_all(box: Box) -> None:
    made = box.create_buffer(SIZE)
    other, source = box.open(made.key), box.create_buffer(SIZE, private=True)
    made.free()
    uses: list[Callable[[SharedBuffer], object]] = [
        lambda buffer: buffer.read(np.empty(SIZE, np.float32)),
        lambda buffer: buffer.write(numbers()),
        lambda buffer: buffer.accumulate(source),
        lambda buffer: buffer.scale(2.0),
        lambda buffer: buffer.axpby(1.0, source, 1.0),
        lambda buffer: source.accumulate(buffer),
        lambda buffer: buffer.notify(),
        lambda buffer: buffer.wait(0),
        lambda buffer: buffer.free(),
    ]
    for buffer in (made, other):
        for use in uses:
            with pytest.raises(SegmentError, match=f"key {made.key} was freed"):
                use(buffer)
    with pytest.raises(SegmentError, match="opens no buffer"):
        box.open(made.key)
    source.free()


def freed_memory_is_used_again_and_zero(box: Box) -> None:
    each = ROOM // 4 - 1024  # elements, nearly all of the box
    first = box.create_buffer(each)
    first.write(np.ones(each, np.float32))
    first.notify(3)
    first.free()
    second = box.create_buffer(each)
    assert not content(second).any()
    with pytest.raises(ExchangeTimeout):
        second.wait(3, timeout_seconds=0.01)
    second.free()


def full_box_says_what_was_asked_and_what_is_taken(box: Box) -> None:
    made = box.create_buffer(ROOM // 8)
    with pytest.raises(SegmentError, match=r"no room for \d{6,} bytes.*\d{5,} of \d{6,} are taken"):
        box.create_buffer(10 * ROOM)
    made.free()


def what_does_not_fit_is_refused(box: Box) -> None:
    made, other = box.create_buffer(SIZE), box.create_buffer(SIZE + 1)
    whole = box.create_buffer(SIZE, np.int64)
    with pytest.raises(SegmentError, match="elements 1 to 1001 are not all in a buffer of 1000"):
        made.write(numbers(), offset=1)
    with pytest.raises(SegmentError, match=r"elements -1 to 999"):
        made.read(numbers(), offset=-1)
    with pytest.raises(SegmentError, match=r"got float64 of shape \(3,\), expected float32"):
        made.write(np.zeros(3))
    for wrong in (other, whole, made):
        with pytest.raises(SegmentError, match="expected another one than the target, of 1000"):
            made.accumulate(wrong)
    with pytest.raises(SegmentError, match="vector operations are for float32"):
        whole.scale(2.0)
    for event in (8, -1):
        for use in (made.notify, made.wait):
            with pytest.raises(SegmentError, match=f"event {event}: expected 0 to 7"):
                use(event)
    with pytest.raises(SegmentError, match="dtype float64: expected float32 or int64"):
        box.create_buffer(SIZE, np.float64)
    with pytest.raises(SegmentError, match="size = 0"):
        box.create_buffer(0)
    for buffer in (made, other, whole):
        buffer.free()


CONTRACT: dict[str, Callable[[Box], None]] = {
    check.__name__: check
    for check in (
        new_buffer_is_zero_and_known_by_its_key,
        wrong_keys_open_nothing,
        parts_are_read_and_written_where_they_lie,
        whole_numbers_can_be_counters,
        vector_operations_equal_numpy,
        events_count_since_they_were_last_asked_for,
        event_that_does_not_happen_ends_the_wait_in_time,
        freed_buffer_is_closed_to_all,
        freed_memory_is_used_again_and_zero,
        full_box_says_what_was_asked_and_what_is_taken,
        what_does_not_fit_is_refused,
    )
}


def tried(box: Box) -> dict[str, str]:
    """Try all on one box, which each leaves as it was; return what failed, "" for nothing."""
    found = {}
    for name, check in CONTRACT.items():
        try:
            check(box)
            found[name] = ""
        except Exception:  # noqa: BLE001
            found[name] = traceback.format_exc()
    return found


def main() -> None:
    from knltrain.communication.memory_box.remote import RemoteBox
    from knltrain.communication.mpi.runtime import load_mpi

    world = load_mpi().COMM_WORLD
    with RemoteBox.create(world, ROOM // world.size, timeout_seconds=20) as box:
        if world.rank == 0:
            print(json.dumps(tried(box)), flush=True)


if __name__ == "__main__":
    main()
