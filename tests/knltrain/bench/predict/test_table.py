from __future__ import annotations

from typing import Any

from knltrain.bench.predict.table import format_table

ROW: dict[str, Any] = {
    "method": "sync_sgd",
    "link_gbits": 10.0,
    "overlaps": False,
    "computing_seconds": 0.008,
    "waiting_seconds": 0.0005,
    "exchange_seconds": 0.003,
    "least_exchange_seconds": 0.0017,
    "predicted_seconds": 0.0125,
    "measured_seconds": 0.012,
    "error": 0.0417,
    "naive_error": 0.05,
    "spread": 0.02,
}
REPORT: dict[str, Any] = {
    "machine": {
        "model": "AMD EPYC",
        "before": {"sgemm_gflops": 180.0, "copy_gbytes_per_second": 30.0},
    },
    "network": "lenet",
    "nodes": 2,
    "workers": 2,
    "workers_per_core": 1,
    "batch_per_worker": 32,
    "steps": 120,
    "rounds": 3,
    "fitted_gbits": [2.5, 5.0],
    "rows": [ROW],
    "failures": {"asgd": "expected workers = 1"},
    "met": 1,
    "median_error": 0.0417,
    "median_naive_error": 0.05,
}


def test_a_line_has_a_number_in_each_cell() -> None:
    lines = format_table(REPORT).splitlines()
    assert "the model fitted to links of 2.5, 5 Gbit/s" in lines[0]
    assert "rounds of 120 steps or more" in lines[0]
    cells = lines[4].split()
    assert cells == [
        "sync_sgd",
        "10",
        "8.00",
        "3.00",
        "1.70",
        "no",
        "12.50",
        "12.00",
        "+4.2",
        "2.0",
        "+5.0",
    ]
    assert lines[6].startswith("1 of 1 within 10 % or the spread of the rounds; median error 4.2%")
    assert lines[7] == "asgd failed: expected workers = 1"


def test_cores_that_are_shared_are_told() -> None:
    assert "on a core" not in format_table(REPORT)
    assert "; 2 workers on a core; medians" in format_table({**REPORT, "workers_per_core": 2})


def test_a_node_has_no_links() -> None:
    alone = {**ROW, "link_gbits": None}
    text = format_table({**REPORT, "nodes": 1, "rows": [alone], "failures": {}})
    assert "2 workers of one node" in text
    assert "Gbit/s links" not in text


def test_nothing_that_could_be_measured_leaves_the_reasons() -> None:
    empty = {"rows": [], "met": 0, "median_error": None, "median_naive_error": None}
    assert "asgd failed: expected workers = 1" in format_table({**REPORT, **empty})
