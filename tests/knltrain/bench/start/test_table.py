from __future__ import annotations

from knltrain.bench.start.table import format_table


def test_each_case_has_a_line() -> None:
    row = {
        "network": "lenet",
        "cache": "filled",
        "seconds": 1.234,
        "processor_seconds": 2.0,
        "kernels_compiled": 3.0,
        "kernel_seconds": 0.25,
        "of_rounds": [1.234],
    }
    report = {
        "machine": {"model": "a processor"},
        "batch": 64,
        "workers": 2,
        "rounds": 1,
        "rows": [row],
    }
    head, _, _, line, *_ = format_table(report).splitlines()
    assert "2 workers, 64 random images each, on a processor" in head
    assert line.split() == ["lenet", "filled", "1.23", "s", "2.00", "s", "3", "0.25", "s"]
