"""Writes, notifications and what is said of those that cannot be."""

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import CollectiveError, ExchangeTimeout

from .conftest import together

READ_ONLY = np.ones(1)
READ_ONLY.flags.writeable = False


@pytest.fixture
def two():
    """Segments of 64 bytes with 4 notifications at two ranks, and the space of the first."""
    spaces = [AddressSpace(ranks, timeout_seconds=10) for ranks in thread_ranks(2)]
    yield [*together(spaces, lambda space: space.create_segment(64, 4)), spaces[0]]
    together(spaces, lambda space: space.close())


def test_data_of_any_dtype_and_shape_arrive_where_they_are_written(two):
    near, far, space = two
    near.write(np.arange(4, dtype=np.float64).reshape(2, 2), 1, 32)
    near.write(np.array([7], np.int16), 1, 2)
    near.write(np.array([9], np.uint8), 0, 63)
    space.wait()
    assert far.memory[32:].view(np.float64).tolist() == [0, 1, 2, 3]
    assert far.memory[2] == 7
    assert near.memory[63] == 9
    assert far.arrived() == []


def test_waitsome_returns_one_that_is_there_and_only_of_those_asked_for(two):
    near, far, space = two
    near.notify(1, 3, 30)
    near.notify(1, 1, 10)
    space.wait()
    assert far.notify_waitsome(timeout_seconds=10) == 1
    assert far.notify_waitsome(2, 2, timeout_seconds=10) == 3
    assert far.arrived() == [1, 3]
    assert far.notify_reset(1) == 10
    assert far.notify_reset(1) == 0
    assert far.arrived() == [3]


def test_waitsome_ends_after_its_time_with_what_it_waited_for(two):
    near, far, space = two
    near.notify(1, 0, 5)
    space.wait()
    with pytest.raises(ExchangeTimeout, match=r"segment 0 of rank 1: .* notifications 2 to 3"):
        far.notify_waitsome(2, timeout_seconds=0.02)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.write(np.zeros(8), 2, 0), "rank=2: expected 0 to 1"),
        (lambda s: s.write(np.zeros(8), -1, 0), "rank=-1: expected 0 to 1"),
        (lambda s: s.write(np.zeros(8), 1, 1), "64 bytes at offset_bytes=1 of rank 1: expected"),
        (lambda s: s.write(np.zeros(1), 1, -8), "8 bytes at offset_bytes=-8 of rank 1: expected"),
        (lambda s: s.write(np.zeros((4, 4))[:, :1], 1, 0), r"shape \(4, 1\) have strides"),
        (lambda s: s.write(np.zeros(1), 1, 0, queue=2), "queue=2: expected 0 to 1"),
        (lambda s: s.write(np.zeros(1), 1, 0, queue=0.0), "queue=0.0: expected 0 to 1, a whole"),
        (lambda s: s.write(np.ones(1), 1, 0.5), "offset_bytes=0.5 of rank 1: .* a whole number"),
        (lambda s: s.write(np.ones(1), 1.0, 0), "rank=1.0: expected 0 to 1, a whole number"),
        (lambda s: s.write(np.ones(1, object), 1, 0), "data of type object: expected a NumPy"),
        (lambda s: s.write([1.0], 1, 0), "data of type list: expected a NumPy array"),
        (lambda s: s.read(READ_ONLY, 1, 0), r"out of shape \(1,\) is read-only: expected"),
        (lambda s: s.notify(1, 0, 1.5), "value=1.5 of notification 0: expected 1 to .* 0 means"),
        (lambda s: s.notify(1, 0.5, 1), "notification=0.5 of rank 1: expected 0 to 3, a whole"),
        (lambda s: s.notify_reset(0.5), "begin=0.5: expected .* a whole number"),
        (lambda s: s.arrived(0, 1.5), "count=1.5: expected .* a whole number"),
        (lambda s: s.fetch_add(1, 16, 1.5), "value=1.5: expected .* a whole number"),
        (lambda s: s.fetch_add(1, 16, 2**63), f"value={2**63}: expected"),
        (lambda s: s.fetch_add(1, 16.0, 1), "offset_bytes=16.0 of rank 1: expected"),
        (lambda s: s.compare_swap(1, 16, 0.0, 1), "expected=0.0: expected"),
        (lambda s: s.compare_swap(1, 16, 0, 1.5), "value=1.5: expected"),
        (lambda s: s.write_notify(np.zeros(1), 1, 0, 4, 1), "notification=4 of rank 1: .* 0 to 3"),
        (lambda s: s.write_notify(np.zeros(1), 1, 0, 0, 0), "value=0 of notification 0: expected"),
        (lambda s: s.notify(1, 0, 2**63), f"value={2**63} of notification 0: expected 1 to"),
        (lambda s: s.notify(5, 0, 1), "rank=5: expected 0 to 1"),
        (lambda s: s.notify_reset(4), "begin=4, count=1: expected .* there are 4"),
        (lambda s: s.arrived(2, 3), "begin=2, count=3: expected .* there are 4"),
        (lambda s: s.notify_waitsome(4, timeout_seconds=0), "begin=4, count=None: expected"),
    ],
)
def test_what_cannot_be_is_named(two, call, said):
    with pytest.raises(CollectiveError, match=said):
        call(two[0])
    two[2].wait()
    assert two[1].arrived() == [] and not two[1].memory.any()


def test_what_is_read_only_may_be_written_to_others_and_numbers_may_be_of_numpy(two):
    near, far, space = two
    near.write(READ_ONLY, np.int64(1), np.uint8(8))
    near.notify(1, np.int32(2), np.int64(2**63 - 1))
    assert near.fetch_add(1, 0, np.int64(2**63 - 1)) == 0
    assert near.fetch_add(1, 0, np.int64(1)) == 2**63 - 1
    space.wait()
    assert far.memory[8:16].view(np.float64) == 1
    assert far.notify_reset(2) == 2**63 - 1
