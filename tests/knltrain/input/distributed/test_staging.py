"""Batches whose pictures are fetched ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from knltrain.data.augmentation.mixing import Mixing
from knltrain.data.dataset import Dataset
from knltrain.data.order import ShardedBatches
from knltrain.errors import PeerLost, RunAborted
from knltrain.input.batch_feed import FilledHere
from knltrain.input.distributed.records import DistributedRecords
from knltrain.input.distributed.sources import records_of
from knltrain.input.distributed.staging import StagedBatches

from .conftest import Spread


def nothing() -> None:
    """All is well."""


def feed_of(
    dataset: Dataset,
    iter_size: int = 1,
    check: Callable[[], None] = nothing,
    batch: int = 8,
    window: Any = None,
) -> StagedBatches:
    batches = ShardedBatches(dataset.train, batch, 1, 2, 3, iter_size)
    records = records_of(dataset.train.source)
    assert records is not None
    return StagedBatches(batches, records, (6, 5, 3), check, 20.0, window)


@pytest.mark.parametrize("kind", ["raw", "encoded"])
@pytest.mark.parametrize(("iter_size", "mixes"), [(1, False), (2, False), (1, True)])
def test_batches_are_those_of_the_whole(
    kind: str, iter_size: int, mixes: bool, spread: Spread, request: pytest.FixtureRequest
) -> None:
    whole: Dataset = request.getfixturevalue(kind)
    if mixes:
        whole = replace(whole, train=replace(whole.train, mixing=Mixing(0.4, 0.0)))
    plain = FilledHere(ShardedBatches(whole.train, 8, 1, 2, 3, iter_size), (6, 5, 3))
    feed = feed_of(spread(whole)[0], iter_size)
    feed.begin(1)
    feed.take(1)  # as a rehearsal does
    feed.begin(1)
    for step in range(1, 12):
        for number in range(iter_size):
            found, expected = feed.take(step, number), plain.take(step, number)
            np.testing.assert_array_equal(found.images_nhwc, expected.images_nhwc)
            np.testing.assert_array_equal(found.labels, expected.labels)
            np.testing.assert_array_equal(found.key, expected.key)
            feed.give_back()
    feed.close()


def test_two_batches_are_fetched_ahead_and_no_more(
    raw: Dataset, spread: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Any] = []
    fetch = DistributedRecords.fetch

    def seen(self: DistributedRecords, rows: Any, room: Any = None) -> Any:
        found = fetch(self, rows, room)
        fetched.append((threading.current_thread().name, rows.tolist()))
        return found

    monkeypatch.setattr(DistributedRecords, "fetch", seen)
    feed = feed_of(spread(raw)[0])
    feed.begin(0)
    feed.take(0)
    deadline = time.monotonic() + 20
    while len(fetched) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    batches = ShardedBatches(raw.train, 8, 1, 2, 3)
    assert fetched == [("data-staging", batches.rows_read(step).tolist()) for step in range(3)]
    feed.close()


def test_a_lost_node_is_told_by_the_step_that_needs_it(raw: Dataset, spread: Spread) -> None:
    feed = feed_of(spread(raw)[0])
    feed.begin(0)
    feed.take(0)
    for server in spread.servers:  # type: ignore[attr-defined]
        server.close()
    with pytest.raises(PeerLost, match="node 1"):
        for step in range(1, 5):
            feed.take(step)
    feed.close()


def test_a_worker_that_waits_hears_of_the_end_of_the_run(
    raw: Dataset, spread: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def slow(*_: Any) -> Any:
        held.wait(20)
        raise PeerLost("late")

    def ended() -> None:
        raise RunAborted("stopped", 15)

    monkeypatch.setattr(DistributedRecords, "fetch", slow)
    feed = feed_of(spread(raw)[0], check=ended)
    feed.begin(0)
    with pytest.raises(RunAborted):
        feed.take(0)
    held.set()
    feed.close()


def test_a_window_is_closed_once_nothing_is_read_any_more(
    raw: Dataset, spread: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPI frees it for all ranks, also for a thread that still reads."""
    order: list[str] = []
    fetch = DistributedRecords.fetch

    def slow(*given: Any) -> Any:
        found = fetch(*given)
        time.sleep(0.05)
        order.append("read")
        return found

    monkeypatch.setattr(DistributedRecords, "fetch", slow)
    window: Any = SimpleNamespace(close=lambda: order.append("closed"))
    feed = feed_of(spread(raw)[0], window=window)
    feed.begin(0)
    feed.close()
    assert order == ["read", "read", "closed"]
