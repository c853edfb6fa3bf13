"""What measured times of operations come to."""

import pytest

from knltrain.bench.ops_report import comparisons, format_table


def row(operation, shape, direction, implementation, milliseconds, layers=1):
    return {
        "operation": operation,
        "shape": shape,
        "layers": layers,
        "direction": direction,
        "implementation": implementation,
        "algorithm": "direct" if implementation == "numba" else None,
        "candidates": {},
        "milliseconds": milliseconds,
        "gflops": 7.0,
        "share_of_sgemm": 0.5,
        "gbytes_per_second": None,
        "share_of_copy": None,
    }


ROWS = [
    row("convolution", "a", "forward", "numba", 1.0, layers=3),
    row("convolution", "a", "forward", "onednn", 2.0, layers=3),
    row("convolution", "b", "forward", "numba", 4.0),
    row("convolution", "b", "forward", "onednn", 128.0),
    row("convolution", "b", "backward_data", "numba", 4.0),
    row("convolution", "b", "backward_data", "onednn", 1.0),
    row("dense", "a", "forward", "numba", 5.0),
]


def test_each_layer_counts_in_the_geometric_mean_of_ratios():
    found = comparisons(ROWS, ("numba", "onednn"))
    assert [(it["direction"], it["layers"], it["shapes"]) for it in found] == [
        ("forward", 4, 2),
        ("backward_data", 1, 1),
    ]
    assert [it["ratio"] for it in found] == pytest.approx([4.0, 0.25])


def test_one_implementation_is_compared_with_none():
    assert comparisons(ROWS, ("numba",)) == []


def test_table_shows_every_row_and_comparison_and_what_was_set():
    report = {
        "machine": "box",
        "settings": {"NUMBA_CPU_NAME": "knl"},
        "network": "small",
        "batch": 2,
        "threads": 1,
        "rounds": 3,
        "sgemm_gflops": 100.0,
        "copy_gbytes_per_second": 10.0,
        "rows": ROWS,
        "comparisons": comparisons(ROWS, ("numba", "onednn")),
    }
    lines = format_table(report).splitlines()
    assert "sgemm 100 GFLOP/s" in lines[1]
    assert lines[2] == "NUMBA_CPU_NAME=knl"
    assert len(lines) == 5 + len(ROWS) + 2
    assert "numba 4.00 times as fast as onednn (geometric mean over 4 layers, 2" in lines[-2]
