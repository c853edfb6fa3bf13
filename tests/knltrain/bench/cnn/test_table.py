from __future__ import annotations

import pytest

from knltrain.bench.cnn.summary import kind_rows, step_row
from knltrain.bench.cnn.table import IN_PLACE, format_table

from .test_summary import PROFILE

REPORT = {
    "batch_per_worker": 8,
    "steps": 5,
    "method": "layerwise_sgd",
    "machine": {"model": "a machine"},
    "rows": [step_row("small", "2 workers", PROFILE)],
    "kinds": kind_rows("small", "2 workers", PROFILE),
}


def test_the_table_has_both_and_what_failed() -> None:
    lines = format_table(REPORT).splitlines()
    assert any(line.split()[:4] == ["small", "2", "workers", "100.00"] for line in lines)
    assert any("convolution 3x3  40.00" in line for line in lines)
    assert lines[-1] == "small, 2 workers: check failed: rest of a step"


def test_the_longest_layers_have_a_row_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = format_table(REPORT).splitlines()
    assert lines[lines.index(IN_PLACE) - 2].split()[3:] == ["fc", "10.00", "6.00", "1.00"]
    monkeypatch.setattr("knltrain.bench.cnn.table._MOST_LAYERS", 1)
    lines = format_table(REPORT).splitlines()
    place = lines.index(IN_PLACE)
    assert lines[place - 2].split()[3:] == ["conv", "40.00", "4.00", "2.00"]
    assert lines[place - 1].split()[3:] == ["2", "others", "15.00", "6.00", "1.00"]
