"""What every kind of ranks promises; all ranks run it together.

As a program, for the ranks of MPI:
`mpiexec ... -m tests.knltrain.communication.gaspi.contract NAME`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, Extent, MPIRanks, Ranks
from knltrain.errors import CollectiveError, ExchangeTimeout, SegmentError

ROUNDS = 40
FLOATS = 20_001


def all_come(ranks: Ranks) -> None:
    assert len(ranks.tell("here", range(ranks.size), 30)) == ranks.size


def texts_are_heard_whole_or_told_apart(ranks: Ranks) -> None:
    everyone, long = range(ranks.size), "\u00e4\n" * 2000
    assert ranks.tell(f"{ranks.rank}", everyone, 30) == {rank: f"{rank}" for rank in everyone}
    assert len(set(ranks.tell(long, everyone, 30).values())) == 1
    assert len(set(ranks.tell(f"{long}{ranks.rank}", everyone, 30).values())) == ranks.size


def puts_are_there_when_they_are_completed(ranks: Ranks) -> None:
    memory = ranks.allocate([Extent(64 * (1 + rank), ranks.size) for rank in range(ranks.size)])
    all_come(ranks)
    assert memory.memory.size == 64 * (1 + ranks.rank)
    assert [extent.size_bytes for extent in memory.extents] == [
        64 * (1 + rank) for rank in range(ranks.size)
    ]
    data = np.full(8, 10 + ranks.rank, np.uint8)
    for rank in range(ranks.size):
        memory.put(data, rank, 8 * ranks.rank)
        memory.complete(rank)
        memory.store(rank, ranks.rank, 100 + ranks.rank)
    all_come(ranks)
    words = np.zeros(ranks.size, np.int64)
    memory.read_words(0, words)
    assert words.tolist() == [100 + rank for rank in range(ranks.size)]
    for rank in range(ranks.size):
        assert set(memory.memory[8 * rank : 8 * rank + 8]) == {10 + rank}
    all_come(ranks)
    memory.free()


def a_word_is_taken_once(ranks: Ranks) -> None:
    memory = ranks.allocate([Extent(0, 3)] * ranks.size)
    assert memory.swap_word(2, 5) == 0
    assert memory.swap_word(2, 0) == 5
    assert memory.swap_word(2, 2**62 + 1) == 0
    found = np.zeros(2, np.int64)
    memory.read_words(1, found)
    assert found.tolist() == [0, 2**62 + 1]
    all_come(ranks)
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
    for wrong in ([0, 0], [ranks.size], [0.0, 1], [(ranks.rank + 1) % ranks.size]):
        if wrong != [ranks.rank]:
            with pytest.raises(CollectiveError, match=r"member.*=.*: expected"):
                space.group(wrong)  # type: ignore[arg-type]
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
    for wrong in (ranks.rank, ranks.size, -1):
        with pytest.raises(CollectiveError, match=f"passive_send: rank={wrong}: expected "):
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
            ExchangeTimeout, match=f"rank {ranks.rank}: waited 0.2 s .* rank 1.* in barrier"
        ):
            space.barrier(0.2)
        segment.notify(1, ranks.rank, 1)
    if ranks.rank == 1:
        space.barrier()  # that which the others have given up
    space.close()


def who_comes_late_does_not_go_on_alone(ranks: Ranks) -> None:
    """Rank 1 makes a segment only when all others have given it up."""
    space = AddressSpace(ranks, timeout_seconds=30)
    signs = space.create_segment(0, ranks.size)
    second = AddressSpace(ranks, timeout_seconds=30 if ranks.rank == 1 else 0.2)
    if ranks.rank == 1:
        for rank in (rank for rank in range(ranks.size) if rank != 1):
            signs.notify_waitsome(rank, 1, timeout_seconds=30)
    else:
        with pytest.raises(ExchangeTimeout, match=r"rank 1.* in create_segment of segment 0; if"):
            second.create_segment(8, 1)
        signs.notify(1, ranks.rank, 1)
    with pytest.raises(
        CollectiveError, match=r"0 in barrier, rank 1 in create_segment of segment 0, second step"
    ):
        if ranks.rank == 1:
            second.create_segment(8, 1)
        else:
            space.barrier()
    space.close()


def different_calls_are_told(ranks: Ranks) -> None:
    """Rank 1 does something else than all others."""
    space, is_other = AddressSpace(ranks, timeout_seconds=30), ranks.rank == 1
    everyone = list(range(ranks.size))
    group = space.group(everyone)
    ones = np.ones(3)

    def differ(call: Callable[[], object], other: Callable[[], object], said: str) -> None:
        with pytest.raises(CollectiveError, match=rf"rank {ranks.rank}: rank 0 in {said}"):
            (other if is_other else call)()
        space.barrier()  # all can go on

    differ(
        lambda: space.group(everyone),
        lambda: space.group(everyone[::-1]),
        r"group\(\[0, 1.*\]\), rank 1 in group\(\[.*1, 0\]\)",
    )
    differ(lambda: space.group(everyone), space.barrier, r"group\(\[0, 1.*\]\), rank 1 in barrier")
    for given, said in (
        (ones.astype(np.int64), "'sum' of 3 int64"),
        (ones[:2], "'sum' of 2 float64"),
        (ones.astype(">f8"), "'sum' of 3 >f8"),
    ):
        differ(
            lambda: group.all_reduce(ones),
            lambda given=given: group.all_reduce(given),  # type: ignore[misc]
            rf"all_reduce, 'sum' of 3 float64 of group .*, rank 1 in all_reduce, {said}",
        )
    differ(
        lambda: group.all_reduce(ones, "max"),
        lambda: group.all_reduce(ones, "min"),
        r"all_reduce, 'max' of 3 float64 .*, rank 1 in all_reduce, 'min' of 3 float64",
    )
    differ(
        group.barrier,
        lambda: group.all_reduce(ones),
        r"barrier of group \[0, .*, rank 1 in all_reduce",
    )
    with pytest.raises(CollectiveError, match="0 in create_segment of segment 0, rank 1 in close"):
        if is_other:
            space.close()
        else:
            space.create_segment(8, 1)
    space.abandon()


def more_memory_than_there_is_is_refused_by_all(ranks: Ranks) -> None:
    space = AddressSpace(ranks, timeout_seconds=30)
    for size_bytes, notifications in ((2**44, 1), (0, 2**41)):
        with pytest.raises(SegmentError, match=r"segment 0 takes .* TiB at .* are free: make it"):
            space.create_segment(*((size_bytes, notifications) if ranks.rank == 1 else (8, 1)))
    assert space.create_segment(8, 1).memory.size == 8
    space.close()


def nothing_can_be_done_after_the_end(ranks: Ranks) -> None:
    space = AddressSpace(ranks, timeout_seconds=30)
    segment, group = space.create_segment(8, 1), space.group(range(ranks.size))
    post = segment.write(np.ones(1), ranks.rank, 0)
    space.close()
    space.close()
    calls: list[Callable[[], object]] = [
        lambda: space.create_segment(8, 1),
        lambda: space.wait(),
        lambda: space.is_done(post),
        lambda: space.group([ranks.rank]),
        lambda: space.passive_send(np.ones(1), 1 - ranks.rank),
        lambda: space.passive_receive(np.ones(1)),
        lambda: space.barrier(),
        lambda: group.barrier(),
        lambda: group.all_reduce(np.ones(1)),
        lambda: segment.write(np.ones(1), 0, 0),
        lambda: segment.read(np.ones(1), 0, 0),
        lambda: segment.write_notify(np.ones(1), 0, 0, 0, 1),
        lambda: segment.notify(0, 0, 1),
        lambda: segment.notify_waitsome(timeout_seconds=0),
        lambda: segment.arrived(),
        lambda: segment.notify_reset(0),
        lambda: segment.fetch_add(0, 0, 1),
        lambda: segment.compare_swap(0, 0, 0, 1),
    ]
    for call in calls:
        with pytest.raises(CollectiveError, match=f"space of rank {ranks.rank} is closed: expect"):
            call()
    assert segment.memory.size == 0
    space.abandon()
    if isinstance(ranks, MPIRanks):
        with pytest.raises(CollectiveError, match="these MPIRanks are closed: expected open ones"):
            AddressSpace(ranks).barrier()


CONTRACT = (
    texts_are_heard_whole_or_told_apart,
    puts_are_there_when_they_are_completed,
    a_word_is_taken_once,
    notifications_come_after_their_data,
    the_last_value_of_a_notification_stays,
    reads_find_what_lies_at_other_ranks,
    atomic_operations_lose_nothing,
    groups_meet_without_the_others,
    messages_come_in_the_order_of_their_sender,
    who_does_not_come_is_named,
    who_comes_late_does_not_go_on_alone,
    different_calls_are_told,
    more_memory_than_there_is_is_refused_by_all,
    nothing_can_be_done_after_the_end,
)

if __name__ == "__main__":
    for promise in CONTRACT:
        promise(MPIRanks())
    if MPIRanks(progress=False).rank == 0:
        print("kept", flush=True)
