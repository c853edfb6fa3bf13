"""What every kind of ranks promises; all ranks run it together.

As a program, for the ranks of MPI:
`mpiexec ... -m tests.knltrain.communication.gaspi.contract NAME`.
"""

from __future__ import annotations

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
    messages_come_in_the_order_of_their_sender,
    who_does_not_come_is_named,
)

if __name__ == "__main__":
    for promise in CONTRACT:
        promise(MPIRanks())
    if MPIRanks(progress=False).rank == 0:
        print("kept", flush=True)
