"""All-reduces of ranks that are threads, on a memory that keeps only the order that is promised."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.communication.internode.one_sided_sums import DoublingSum, OneSidedSum, RingSum
from knltrain.errors import ExchangeTimeout

SIZES = (1000, 1, 3, 0, 7, 999, 64, 1000)
ROUNDS = 5


def given(rank: int, number: int, size: int) -> np.ndarray:
    return np.random.default_rng([rank, number]).standard_normal(size, np.float32)


@pytest.mark.parametrize("kind", [RingSum, DoublingSum])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_all_get_the_same_bits_call_after_call_whoever_is_slow(
    kind: type[OneSidedSum], ranks: int
) -> None:
    dice = random.Random(ranks)

    def work(space: AddressSpace) -> list[bytes]:
        sums, found = kind(space, max(SIZES), 20), []
        for number, size in enumerate(SIZES * ROUNDS):
            values = given(space.rank, number, size)
            time.sleep(dice.choice([0.0, 0.0, 0.002]))
            sums.all_reduce(values)
            expected = sum(given(rank, number, size).astype(np.float64) for rank in range(ranks))
            np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
            found.append(values.tobytes())
        space.close()
        return found

    spaces = [AddressSpace(each, timeout_seconds=20) for each in thread_ranks(ranks, seed=ranks)]
    with ThreadPoolExecutor(ranks) as threads:
        first, *others = threads.map(work, spaces)
    assert all(other == first for other in others)


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

    spaces = [AddressSpace(each, timeout_seconds=20) for each in thread_ranks(ranks)]
    with ThreadPoolExecutor(ranks) as threads:
        list(threads.map(work, spaces))
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

    spaces = [AddressSpace(each, timeout_seconds=20) for each in thread_ranks(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, spaces))
