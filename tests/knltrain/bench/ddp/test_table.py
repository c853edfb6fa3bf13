"""The report of `knltrain bench ddp` as text."""

from __future__ import annotations

from knltrain.bench.ddp.table import format_table


def test_table_tells_steps_and_ratios() -> None:
    rows = [
        {"backend": name, "seconds": s, "least_seconds": s / 2, "times_as_fast_as": {other: times}}
        for name, other, s, times in (("knlshm", "gloo", 0.05, 1.5), ("gloo", "knlshm", 0.1, 0.5))
    ]
    report = {
        "machine": {"model": "a processor"},
        "versions": {"gloo": "torch 2"},
        "workers": 2,
        "cores_per_worker": 4,
        "width": 64,
        "batch": 8,
        "rounds": 3,
        "parameters": 1_000_000,
        "rows": rows,
    }
    lines = format_table(report).splitlines()
    assert "4.0 MB of parameters, batch 8 per rank, 2 ranks with 4 cores each on a pro" in lines[0]
    assert lines[1] == "gloo: torch 2"
    assert lines[-2].split() == ["knlshm", "50.00", "ms", "25.00", "ms", "20.0", "1.50x"]
    assert lines[-1].split() == ["gloo", "100.00", "ms", "50.00", "ms", "10.0", "0.50x"]
