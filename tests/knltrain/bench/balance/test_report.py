"""The table of the bench of unequal workers."""

from __future__ import annotations

from knltrain.bench.balance.report import format_table

REPORT = {
    "network": "lenet",
    "method": "sync_sgd",
    "speeds": [400.0, 100.0],
    "batch": 240,
    "steps": 60,
    "rounds": 3,
    "rows": [
        {"way": "alone", "images_per_second": 396.4, "share_of_sum": 0.7928},
        {"way": "equal", "images_per_second": 198.0, "share_of_sum": 0.396},
        {"way": "fitted", "images_per_second": 1490.0, "share_of_sum": 0.98},
    ],
    "loss": 0.15,
    "increments": [
        {"method": "none", "seconds_to_loss": 16.94},
        {"method": "downpour", "seconds_to_loss": None},
    ],
}


def test_each_cell_has_one_number() -> None:
    assert format_table(REPORT).splitlines() == [
        "lenet by sync_sgd, batch 240, 60 steps, medians of 3 rounds; workers of 400, 100 "
        "images/s, emulated by sleeping",
        "workers                   images/s  of the sum",
        "the fastest worker alone       396       0.793",
        "equal shares                   198       0.396",
        "fitted shares                1,490       0.980",
        "",
        "seconds to a test loss of 0.15, each worker with batches of its own",
        "workers                   seconds",
        "the fastest worker alone     16.9",
        "all, by downpour            never",
    ]
