"""The number of workers and what follows from it."""

from __future__ import annotations

import pytest

from knltrain.build.resolve import resolve_workers, resolved


@pytest.mark.parametrize(
    ("workers", "batch", "cores", "expected"),
    [
        ("auto", 64, 1, 1),
        ("auto", 64, 4, 4),
        ("auto", 64, 6, 4),
        ("auto", 64, 64, 4),
        ("auto", 960, 64, 60),
        ("auto", 7, 6, 1),
        (3, 60, 1, 3),
    ],
)
def test_number_of_workers(config, workers, batch, cores, expected):
    assert resolve_workers(config(workers=workers, train__batch=batch), cores) == expected


def test_workers_that_cannot_share_a_batch_never_get_here(config):
    with pytest.raises(ValueError, match="do not divide evenly among 3 workers"):
        config(workers=3)


def test_resolved_run_leaves_nothing_open(config):
    chosen = resolved(config(workers="auto", train__batch=64), most=2)
    assert (chosen.workers, chosen.exchange.moving_rate) == (2, pytest.approx(0.45))
    given = resolved(config(workers="auto", train__batch=64, exchange__moving_rate=0.1), 2)
    assert given.exchange.moving_rate == 0.1
    averaged = resolved(config(workers="auto", train__batch=64, exchange__method="sync_sgd"), 2)
    assert averaged.exchange.moving_rate is None
