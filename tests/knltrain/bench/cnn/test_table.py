from __future__ import annotations

from knltrain.bench.cnn.summary import kind_rows, step_row
from knltrain.bench.cnn.table import format_table

from .test_summary import PROFILE


def test_the_table_has_both_and_what_failed() -> None:
    report = {
        "batch_per_worker": 8,
        "steps": 5,
        "method": "layerwise_sgd",
        "machine": {"model": "a machine"},
        "rows": [step_row("small", "2 workers", PROFILE)],
        "kinds": kind_rows("small", "2 workers", PROFILE),
    }
    lines = format_table(report).splitlines()
    assert any(line.split()[:4] == ["small", "2", "workers", "100.00"] for line in lines)
    assert any("convolution 3x3  40.00" in line for line in lines)
    assert lines[-1] == "small, 2 workers: check failed: rest of a step"
