"""The figures of a run are those of all its workers."""

from __future__ import annotations

import pytest

from knltrain.checkpoint.contents import WorkerState


def test_result_holds_the_means_over_the_workers(in_threads, make_worker, initial, no_exchange):
    def train(transport):
        seconds = {"training": 2.0 + transport.rank, "exchange": 1.0, "evaluation": 50.0}
        start = WorkerState(3, initial, initial, {}, seconds)
        return make_worker(no_exchange(2), transport=transport, steps=3, start=start).run()

    first, second = in_threads(initial.size, 2, train)
    assert first == second
    assert first.steps == 3
    assert first.train_seconds == 2.5
    assert first.exchange_share == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert first.images_per_second == pytest.approx(3 * 12 / 2.5)
    assert first.cost_seconds["moving"] == 1.0
    assert first.cost_seconds["evaluation"] == 50.0
    assert first.communication_share == pytest.approx(1 / 2.5)
