"""All-reduces of ranks that are threads, on a memory that keeps only the order that is promised."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.communication.internode.one_sided_sums import DoublingSum, OneSidedSum, RingSum
from knltrain.errors import CollectiveError, ExchangeTimeout

SIZES = (1000, 1, 3, 0, 7, 999, 64, 1000)
ROUNDS = 5


def given(rank: int, number: int, size: int) -> np.ndarray:
    return np.random.default_rng([rank, number]).standard_normal(size, np.float32)


def by_all(ranks: int, work: Callable[[AddressSpace], Any]) -> list[Any]:
    """What each rank, a thread, makes of its address space."""
    spaces = [AddressSpace(each, timeout_seconds=20) for each in thread_ranks(ranks, seed=ranks)]
    with ThreadPoolExecutor(ranks) as threads:
        return list(threads.map(work, spaces))


@pytest.mark.parametrize("kind", [RingSum, DoublingSum])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_all_get_the_same_bits_call_after_call_whoever_is_slow(
    kind: type[OneSidedSum], ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, received = random.Random(ranks), OneSidedSum._received

    def slowly(self: OneSidedSum, slot: int, size: int) -> np.ndarray:
        found = received(self, slot, size)
        time.sleep(dice.choice([0.0, 0.0, 0.001]))  # in which others go on, as far as they may
        return found

    monkeypatch.setattr(OneSidedSum, "_received", slowly)
    calls = SIZES * ROUNDS

    def work(space: AddressSpace) -> list[np.ndarray]:
        sums, memory, found = kind(space, max(SIZES), 20), np.zeros(max(SIZES), np.float32), []
        vectors = [given(space.rank, *call) for call in enumerate(calls)]
        for vector in vectors:
            values = memory[: vector.size]
            values[:] = vector
            sums.all_reduce(values)
            found.append(values.copy())
            values[:] = np.nan  # which nobody may be sent any more
        space.close()
        return found

    first, *others = by_all(ranks, work)
    for number, size in enumerate(calls):
        expected = sum(given(rank, number, size).astype(np.float64) for rank in range(ranks))
        np.testing.assert_allclose(first[number], expected, rtol=1e-4, atol=1e-5)
        assert all(np.array_equal(other[number], first[number]) for other in others)


def test_calls_that_do_not_fit_each_other_are_refused() -> None:
    def work(space: AddressSpace) -> None:
        sums = RingSum(space, 8, 5.0)
        with pytest.raises(CollectiveError, match="all_reduce of 9 values: expected up to 8"):
            sums.all_reduce(np.ones(9, np.float32))
        sums._call += space.rank  # as if one had made a call alone
        with pytest.raises(CollectiveError, match=r"number \d got what was sent in number \d"):
            sums.all_reduce(np.ones(8, np.float32))
        space.barrier()
        space.abandon()

    by_all(2, work)


@pytest.mark.parametrize(
    ("kind", "ranks", "sent"),
    [(RingSum, 4, 2 * 3 * 250 * 4), (DoublingSum, 4, 2 * 1000 * 4), (DoublingSum, 5, 3 * 4000)],
)
def test_as_much_is_sent_as_the_algorithm_says(
    kind: type[OneSidedSum], ranks: int, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first of all ranks."""
    counts: list[int] = []
    send = OneSidedSum._send

    def counted(self: OneSidedSum, values: np.ndarray, rank: int, slot: int) -> None:
        counts.extend([values.nbytes] * (self._rank == 0))
        send(self, values, rank, slot)

    monkeypatch.setattr(OneSidedSum, "_send", counted)

    def work(space: AddressSpace) -> None:
        kind(space, 1000, 20).all_reduce(np.ones(1000, np.float32))
        space.close()

    by_all(ranks, work)
    assert sum(counts) == sent


@pytest.mark.parametrize("kind", [RingSum, DoublingSum])
def test_a_rank_that_does_not_come_is_waited_for_so_long(kind: type[OneSidedSum]) -> None:
    def work(space: AddressSpace) -> None:
        sums = kind(space, 8, 0.2)
        if space.rank == 0:
            with pytest.raises(ExchangeTimeout, match=r"waited 0\.2 s in vain"):
                sums.all_reduce(np.ones(8, np.float32))
        space.barrier()
        space.abandon()

    by_all(2, work)
