"""What every kind of ranks promises; all ranks run it together.

As a program, for the ranks of MPI:
`mpiexec ... -m tests.knltrain.communication.gaspi.contract NAME`.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, Extent, MPIRanks, Ranks
from knltrain.errors import CollectiveError, ExchangeTimeout

ROUNDS = 40
FLOATS = 20_001


def puts_are_there_when_they_are_completed(ranks: Ranks) -> None:
    memory = ranks.allocate(Extent(64 * (1 + ranks.rank), ranks.size))
    assert memory.memory.size == 64 * (1 + ranks.rank)
    assert [extent.size_bytes for extent in memory.extents] == [
        64 * (1 + rank) for rank in range(ranks.size)
    ]
    data = np.full(8, 10 + ranks.rank, np.uint8)
    for rank in range(ranks.size):
        memory.put(data, rank, 8 * ranks.rank)
        memory.complete(rank)
        memory.store(rank, ranks.rank, 100 + ranks.rank)
    assert ranks.meet(30) == []
    words = np.zeros(ranks.size, np.int64)
    memory.read_words(0, words)
    assert words.tolist() == [100 + rank for rank in range(ranks.size)]
    for rank in range(ranks.size):
        assert set(memory.memory[8 * rank : 8 * rank + 8]) == {10 + rank}
    assert ranks.meet(30) == []
    memory.free()


def a_word_is_taken_once(ranks: Ranks) -> None:
    memory = ranks.allocate(Extent(0, 3))
    assert memory.swap_word(2, 5) == 0
    assert memory.swap_word(2, 0) == 5
    assert memory.swap_word(2, 2**62 + 1) == 0
    found = np.zeros(2, np.int64)
    memory.read_words(1, found)
    assert found.tolist() == [0, 2**62 + 1]
    assert ranks.meet(30) == []
    memory.free()


def notifications_come_after_their_data(ranks: Ranks) -> None:
    """Rank 0 writes to all others, again and again; whoever is notified finds the data whole."""
    space = AddressSpace(ranks, timeout_seconds=30)
    segment = space.create_segment(4 * FLOATS, 2 + ranks.size)
    floats = segment.memory.view(np.float32)
    for value in range(1, ROUNDS + 1):
        if ranks.rank == 0:
            data = np.full(FLOATS, value, np.float32)
            for rank in range(1, ranks.size):
                segment.write(data[:-1], rank, 4)
                segment.write_notify(data[:1], rank, 0, 1, value)
            for rank in range(1, ranks.size):
                assert segment.notify_waitsome(1 + rank, 1, timeout_seconds=30) == 1 + rank
                assert segment.notify_reset(1 + rank) == value
        else:
            assert segment.notify_waitsome(timeout_seconds=30) == 1
            assert segment.notify_reset(1) == value
            assert np.all(floats == value)
            segment.notify(0, 1 + ranks.rank, value)
    assert segment.arrived() == []
    space.close()


def the_last_value_of_a_notification_stays(ranks: Ranks) -> None:
    space = AddressSpace(ranks, timeout_seconds=30)
    segment = space.create_segment(0, ranks.size)
    for value in range(1, ROUNDS + 1):
        for rank in range(ranks.size):
            segment.notify(rank, ranks.rank, value)
    space.wait()
    space.barrier()
    assert segment.arrived() == list(range(ranks.size))
    assert [segment.notify_reset(rank) for rank in range(ranks.size)] == [ROUNDS] * ranks.size
    assert segment.arrived() == []
    space.close()


def reads_find_what_lies_at_other_ranks(ranks: Ranks) -> None:
    space = AddressSpace(ranks, timeout_seconds=30)
    segment = space.create_segment(4 * FLOATS, 1)
    segment.memory.view(np.float32)[:] = ranks.rank
    space.barrier()
    found = np.full((ranks.size, FLOATS - 3), -1, np.float32)
    for rank in range(ranks.size):
        segment.read(found[rank], rank, 12)
    space.wait()
    assert (found == np.arange(ranks.size)[:, None]).all()
    space.close()


def atomic_operations_lose_nothing(ranks: Ranks) -> None:
    """All count at rank 0, and take a ticket there, which one has at a time.

    They count by additions and by swaps of their own, on one word.
    """
    space = AddressSpace(ranks, timeout_seconds=30)
    segment = space.create_segment(24, 1)
    counts = []
    for _ in range(ROUNDS):
        counts.append(segment.fetch_add(0, 8, 1))
        before = counts[-1]
        while (found := segment.compare_swap(0, 8, before, before + 1)) != before:
            before = found
        counts.append(before)
    assert counts == sorted(set(counts))
    space.barrier()
    assert segment.fetch_add(0, 8, 0) == 2 * ROUNDS * ranks.size
    if not ranks.rank:
        assert segment.fetch_add(0, 0, 2**63 - 1) == 0
        assert segment.fetch_add(0, 0, 1) == 2**63 - 1
        assert segment.fetch_add(0, 0, 0) == -(2**63)
    for _ in range(5):
        while segment.compare_swap(0, 16, 0, 1 + ranks.rank):
            time.sleep(0.0002)
        assert segment.compare_swap(0, 16, 1 + ranks.rank, 0) == 1 + ranks.rank
    for wrong in (4, 24, -8):
        with pytest.raises(CollectiveError, match=f"at offset_bytes={wrong} of rank 0: expected a"):
            segment.fetch_add(0, wrong, 1)
    space.barrier()
    space.close()


def groups_meet_without_the_others(ranks: Ranks) -> None:
    """The even ranks, backwards, and all of them."""
    space = AddressSpace(ranks, timeout_seconds=30)
    even = tuple(range(0, ranks.size, 2))[::-1]
    if ranks.rank in even:
        group = space.group(even)
        values = np.array([1.0, ranks.rank])
        for _ in range(3):
            assert group.all_reduce(values).tolist() == [len(even), sum(even)]
        assert group.all_reduce(values, "max").tolist() == [1.0, max(even)]
        assert group.all_reduce(np.array([ranks.rank]), "min").tolist() == [0]
        group.barrier()
        with pytest.raises(
            CollectiveError, match=r"shape \(256,\): expected \(k,\), 1 <= k <= 255"
        ):
            group.all_reduce(np.zeros(256))
    both = space.group(range(ranks.size))
    assert both.all_reduce(np.array([2**40])).tolist() == [ranks.size * 2**40]
    for wrong in ([0, 0], [ranks.size], [(ranks.rank + 1) % ranks.size]):
        if wrong != [ranks.rank]:
            with pytest.raises(CollectiveError, match=r"members=.* each once, and"):
                space.group(wrong)
    space.close()


def messages_come_in_the_order_of_their_sender(ranks: Ranks) -> None:
    """All send to rank 0, which answers each with all that came of it."""
    space, floats = AddressSpace(ranks, timeout_seconds=30), np.zeros(FLOATS, np.float32)
    if ranks.rank == 0:
        came: dict[int, list[float]] = {rank: [] for rank in range(1, ranks.size)}
        for _ in range(ROUNDS * (ranks.size - 1)):
            rank = space.passive_receive(floats)
            assert np.all(floats == floats[0])
            came[rank].append(float(floats[0]))
        for rank, values in came.items():
            assert values == [100.0 * rank + number for number in range(ROUNDS)]
            space.passive_send(np.array(values), rank)
    else:
        for number in range(ROUNDS):
            floats[:] = 100 * ranks.rank + number
            space.passive_send(floats, 0)
        found = np.zeros(ROUNDS)
        assert space.passive_receive(found) == 0
        assert found[-1] == 100 * ranks.rank + ROUNDS - 1
    space.barrier()
    if ranks.rank == 1:  # an empty one, and one that is too long
        space.passive_send(np.zeros(0), 0)
        space.passive_send(np.zeros(3), 0)
    elif ranks.rank == 0 and ranks.size > 1:
        assert space.passive_receive(np.zeros(0)) == 1
        with pytest.raises(CollectiveError, match=r"of 24 bytes came from rank 1: expected 16"):
            space.passive_receive(np.zeros(2))
        assert space.passive_receive(np.zeros(3)) == 1
        with pytest.raises(CollectiveError, match="expected a contiguous array"):
            space.passive_receive(np.zeros((3, 2)).T)
    space.barrier()
    with pytest.raises(ExchangeTimeout, match=r"waited 0.2 s in vain for a message of any rank"):
        space.passive_receive(floats, 0.2)
    for wrong in (ranks.rank, ranks.size):
        with pytest.raises(CollectiveError, match=f"rank={wrong}: expected another one than"):
            space.passive_send(floats, wrong)
    space.close()


def who_does_not_come_is_named(ranks: Ranks) -> None:
    """Rank 1 comes to a barrier only when all others have given it up."""
    space = AddressSpace(ranks, timeout_seconds=30)
    segment = space.create_segment(0, ranks.size)
    if ranks.rank == 1:
        for rank in (rank for rank in range(ranks.size) if rank != 1):
            segment.notify_waitsome(rank, 1, timeout_seconds=30)
    else:
        with pytest.raises(
            ExchangeTimeout, match=f"rank {ranks.rank}: waited 0.2 s .* rank 1, for"
        ):
            space.barrier(0.2)
        segment.notify(1, ranks.rank, 1)
    if ranks.rank == 1:
        space.barrier()  # that which the others have given up
    space.close()


CONTRACT = (
    puts_are_there_when_they_are_completed,
    a_word_is_taken_once,
    notifications_come_after_their_data,
    the_last_value_of_a_notification_stays,
    reads_find_what_lies_at_other_ranks,
    atomic_operations_lose_nothing,
    groups_meet_without_the_others,
    messages_come_in_the_order_of_their_sender,
    who_does_not_come_is_named,
)

if __name__ == "__main__":
    for promise in CONTRACT:
        promise(MPIRanks())
    if MPIRanks(progress=False).rank == 0:
        print("kept", flush=True)
