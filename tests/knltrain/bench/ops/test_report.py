"""What measured times of operations come to."""

import pytest

from knltrain.bench.ops.report import bandwidths, comparisons, format_table


def row(operation, shape, direction, implementation, milliseconds, layers=1, of_copy=None):
    return {
        "operation": operation,
        "shape": shape,
        "layers": layers,
        "direction": direction,
        "implementation": implementation,
        "algorithm": "direct" if implementation == "numba" else None,
        "candidates": {},
        "milliseconds": milliseconds,
        "gflops": 7.0 if of_copy is None else None,
        "share_of_sgemm": 0.5 if of_copy is None else None,
        "gbytes_per_second": None if of_copy is None else 10 * of_copy,
        "share_of_copy": of_copy,
    }


ROWS = [
    row("convolution", "a", "forward", "numba", 1.0, layers=3),
    row("convolution", "a", "forward", "onednn", 2.0, layers=3),
    row("convolution", "b", "forward", "numba", 4.0),
    row("convolution", "b", "forward", "onednn", 128.0),
    row("convolution", "b", "backward_data", "numba", 4.0),
    row("convolution", "b", "backward_data", "onednn", 1.0),
    row("dense", "a", "forward", "numba", 5.0),
    row("max pooling", "a", "forward", "numba", 5.0, layers=2, of_copy=0.8),
    row("max pooling", "b", "forward", "numba", 5.0, of_copy=0.1),
    row("max pooling", "a", "forward", "reference", 9.0, of_copy=0.05),
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


def test_each_layer_counts_in_the_geometric_mean_of_bandwidths():
    numba, reference = bandwidths(ROWS)
    assert (numba["operation"], numba["implementation"]) == ("max pooling", "numba")
    assert numba["share_of_copy"] == pytest.approx(0.4)
    assert (numba["least"], numba["least_shape"]) == (0.1, "b")
    assert reference["implementation"] == "reference"
    assert reference["share_of_copy"] == pytest.approx(0.05)


def test_table_shows_every_row_comparison_and_bandwidth_and_what_was_set():
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
        "bandwidths": bandwidths(ROWS),
    }
    lines = format_table(report).splitlines()
    assert "sgemm 100 GFLOP/s" in lines[1]
    assert lines[2] == "NUMBA_CPU_NAME=knl"
    assert len(lines) == 5 + len(ROWS) + 2 + 2
    assert "numba 4.00 times as fast as onednn (geometric mean over 4 layers, 2" in lines[-4]
    assert lines[-2].endswith("0.40 of a copy's bandwidth (geometric mean; least 0.10, b)")
