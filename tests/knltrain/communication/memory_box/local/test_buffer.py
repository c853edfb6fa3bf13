"""What can be done with a buffer, also by several processes at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox, layout
from knltrain.errors import ExchangeTimeout, PeerLost, SegmentError

ROOM = 2**20
SIZE = 1000

Peer = Callable[..., "subprocess.Popen[str]"]


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def numbers(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(size).standard_normal(size, np.float32)


def content(buffer: Buffer) -> np.ndarray:
    found = np.empty(buffer.size, buffer.dtype)
    buffer.read(found)
    return found


def test_parts_are_read_and_written_where_they_lie(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    made.write(numbers(10), offset=990)
    part = np.empty(20, np.float32)
    made.read(part, offset=980)
    assert np.array_equal(part, [*np.zeros(10), *numbers(10)])


def test_whole_numbers_can_be_counters(box: SoftMemoryBox) -> None:
    made = box.create_buffer(4, np.int64)
    made.write(np.array([2**53 + 1], np.int64), offset=3)
    assert content(made).tolist() == [0, 0, 0, 2**53 + 1]


@pytest.mark.parametrize("size", [1, 17, SIZE, 30_001])
def test_vector_operations_equal_numpy(box: SoftMemoryBox, size: int) -> None:
    target, source = box.create_buffer(size), box.create_buffer(size)
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
    assert np.array_equal(content(source), second)


@pytest.mark.slow
def test_accumulates_of_many_processes_at_once_add_up_exactly(
    box: SoftMemoryBox, peer: Peer
) -> None:
    center = box.create_buffer(50_000)
    peers = [peer(center, "accumulate", 40) for _ in range(4)]
    assert [hear(each) for each in peers] == ["ready"] * 4
    for each in peers:
        tell(each)
    assert [each.wait(60) for each in peers] == [0] * 4
    assert np.array_equal(content(center), 4 * 40 * (np.arange(50_000) % 7 + 1))


def test_event_of_another_process_wakes_who_waits_and_shows_what_it_wrote(
    box: SoftMemoryBox, peer: Peer
) -> None:
    center = box.create_buffer(SIZE)
    other = peer(center, "notify")
    tell(other)
    assert center.wait(3) == 1
    assert np.all(content(center) == 5)


def test_event_before_the_buffer_was_opened_counts(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    made.notify(1)
    assert box.open(made.key).wait(1, timeout_seconds=0.1) == 1


def test_buffer_is_not_freed_under_who_works_on_it(box: SoftMemoryBox, peer: Peer) -> None:
    center = box.create_buffer(SIZE)
    other = peer(center, "hold")
    assert hear(other) == "inside"
    waiting = threading.Thread(target=center.free)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    assert box.open(center.key).size == SIZE
    other.kill()  # who has ended works no more
    waiting.join(20)
    with pytest.raises(SegmentError, match="opens no buffer"):
        box.open(center.key)
    assert not any(box.create_buffer(SIZE)._locks)


def test_waiting_for_an_event_of_a_freed_buffer_ends(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    other = box.open(made.key)
    made.free()
    with pytest.raises(SegmentError, match="was freed"):
        other.wait(0)


def test_events_count_since_they_were_last_asked_for(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    other = box.open(made.key)
    for _ in range(3):
        other.notify(2)
    assert made.wait(2) == 3
    other.notify(2)
    assert made.wait(2) == 1


def test_event_that_does_not_happen_ends_the_wait_in_time(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    made.notify(1)
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.1 s in vain for event 0 of the buffer"):
        made.wait(0, timeout_seconds=0.1)


def test_death_in_the_middle_of_an_operation_is_told_to_who_comes_next(
    box: SoftMemoryBox, peer: Peer
) -> None:
    center = box.create_buffer(SIZE)
    other = peer(center, "hold")
    assert hear(other) == "inside"
    other.kill()
    with pytest.raises(PeerLost, match=f"process {other.pid} has ended while it worked"):
        center.scale(2.0)


def test_who_is_killed_in_the_middle_of_an_operation_leaves_its_lock(
    box: SoftMemoryBox, peer: Peer
) -> None:
    center = box.create_buffer(100_000)
    other = peer(center, "accumulate", 10**9)
    assert hear(other) == "ready"
    tell(other)
    held = False
    while not held:  # between two operations it has none
        os.kill(other.pid, signal.SIGCONT)
        time.sleep(0.01)
        os.kill(other.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED)
        held = any(center._locks)
    other.kill()
    with pytest.raises(PeerLost, match=f"process {other.pid} has ended while it worked"):
        center.scale(2.0)
    center.free()


def test_stripes_that_nobody_holds_are_done_first() -> None:
    with SoftMemoryBox.create(ROOM, timeout_seconds=0.2) as box:
        made = box.create_buffer(SIZE)
        made.write(np.ones(SIZE, np.float32))
        held = layout.stripes(SIZE, 4)[3]
        made._locks[3] = made._identity
        with pytest.raises(ExchangeTimeout):
            made.scale(2.0)
        expected = np.full(SIZE, 2, np.float32)
        expected[held] = 1
        assert np.array_equal(content(made), expected)
        assert np.flatnonzero(made._locks).tolist() == [3]


def test_holder_that_does_not_go_on_is_named() -> None:
    with SoftMemoryBox.create(ROOM, timeout_seconds=0.2) as box:
        made = box.create_buffer(SIZE)
        made._locks[:] = made._identity  # as if another thread of this process were in there
        with pytest.raises(ExchangeTimeout, match=f"in vain for process {os.getpid()}"):
            made.scale(2.0)


def test_freed_buffer_is_closed_to_all(box: SoftMemoryBox) -> None:
    made = box.create_buffer(SIZE)
    other = box.open(made.key)
    made.free()
    for buffer in (made, other):
        with pytest.raises(SegmentError, match=f"key {made.key} was freed"):
            buffer.read(np.empty(SIZE, np.float32))
    with pytest.raises(SegmentError, match="opens no buffer"):
        box.open(made.key)


def test_what_does_not_fit_is_refused(box: SoftMemoryBox) -> None:
    made, other = box.create_buffer(SIZE), box.create_buffer(SIZE + 1)
    whole = box.create_buffer(SIZE, np.int64)
    with pytest.raises(SegmentError, match="elements 1 to 1001 are not all in a buffer of 1000"):
        made.write(numbers(), offset=1)
    with pytest.raises(SegmentError, match=r"got float64 of shape \(3,\), expected float32"):
        made.write(np.zeros(3))
    for wrong in (other, whole, made):
        with pytest.raises(SegmentError, match="expected another one than the target, of 1000"):
            made.accumulate(wrong)
    with pytest.raises(SegmentError, match="vector operations are for float32"):
        whole.scale(2.0)
    with pytest.raises(SegmentError, match="event 8: expected 0 to 7"):
        made.notify(8)
    with pytest.raises(SegmentError, match="dtype float64: expected float32 or int64"):
        box.create_buffer(SIZE, np.float64)
    with pytest.raises(SegmentError, match="size = 0"):
        box.create_buffer(0)
