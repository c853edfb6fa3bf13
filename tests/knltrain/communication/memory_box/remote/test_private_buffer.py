"""Buffers in this process's own memory, which need no MPI."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from knltrain.communication.memory_box.remote import PrivateBuffer
from knltrain.errors import SegmentError

SIZE = 2**20 + 17  # more than a block


def made(size: int = SIZE, dtype: str = "float32") -> PrivateBuffer:
    return PrivateBuffer(size, np.dtype(dtype), 10.0)


def numbers(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(size).standard_normal(size, np.float32)


def content(buffer: PrivateBuffer) -> np.ndarray:
    found = np.full(buffer.size, 99, buffer.dtype)
    buffer.read(found)
    return found


def test_who_announces_sees_all() -> None:
    steps = made(3, "int64")
    assert steps.announce(5, 1).tolist() == [0, 5, 0]
    assert steps.announce(6, 2).tolist() == [0, 5, 6]


def test_vector_operations_equal_numpy() -> None:
    target, source = made(), made()
    assert not content(target).any()
    target.write(numbers())
    source.write(numbers(20), offset=SIZE - 20)
    other = np.concatenate([np.zeros(SIZE - 20, np.float32), numbers(20)])
    target.accumulate(source)
    assert np.array_equal(content(target), numbers() + other)
    target.axpby(0.5, source, 3.0)
    expected = np.float32(0.5) * (numbers() + other) + np.float32(3) * other
    assert np.array_equal(content(target), expected)
    target.scale(2.0)
    assert np.array_equal(content(target), 2 * expected)


def test_whole_numbers_add_up() -> None:
    target, source = made(3, "int64"), made(3, "int64")
    source.write(np.array([1, 2**53 + 1, 3]))
    for _ in range(2):
        target.accumulate(source)
    assert content(target).tolist() == [2, 2**54 + 2, 6]


def test_elements_are_lent_where_they_are() -> None:
    buffer = made()
    buffer.lend(5, 2)[:] = 7
    assert np.flatnonzero(content(buffer)).tolist() == [5, 6]


def test_event_goes_to_another_thread() -> None:
    buffer, heard = made(4), []
    waiting = threading.Thread(target=lambda: heard.append(buffer.wait(2)))
    waiting.start()
    buffer.notify(2)
    waiting.join(10)
    assert heard == [1]


def test_freed_buffer_is_closed() -> None:
    buffer, other = made(4), made(4)
    buffer.free()
    for use in (buffer.free, buffer.notify, buffer.wait, lambda: content(buffer)):
        with pytest.raises(SegmentError, match="was freed: open another"):
            use()
    with pytest.raises(SegmentError, match="was freed"):
        other.accumulate(buffer)
