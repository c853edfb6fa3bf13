"""The benchmark of operations: real ones, measured for a moment."""

import json

import pytest

from knltrain.bench.ops.benchmark import run_ops_benchmark
from knltrain.bench.ops.report import format_table
from knltrain.errors import ConfigError


@pytest.fixture(scope="module")
def report():
    return run_ops_benchmark("lenet", 2, ("reference", "onednn"), threads=1, rounds=2)


@pytest.mark.slow
def test_report_holds_the_bounds_and_can_be_written(report):
    assert report["sgemm_gflops"] > 0
    assert report["copy_gbytes_per_second"] > 0
    assert json.loads(json.dumps(report)) == report


@pytest.mark.slow
def test_each_operation_has_a_row_per_direction_and_implementation(report):
    rows = [row for row in report["rows"] if row["operation"] == "convolution"]
    keys = {(row["shape"], row["direction"], row["implementation"]) for row in rows}
    assert len(keys) == len(rows) == 2 * 3 * 2
    for row in report["rows"]:
        assert row["milliseconds"] > 0
        computes = row["operation"] in ("convolution", "dense")
        assert (row["share_of_sgemm"] is not None) == computes
        assert (row["share_of_copy"] is None) == computes


@pytest.mark.slow
def test_rates_follow_from_times(report):
    row = next(row for row in report["rows"] if row["operation"] == "dense")
    inputs, outputs = (int(part) for part in row["shape"].split(" -> "))
    assert row["gflops"] == pytest.approx(2 * 2 * inputs * outputs / row["milliseconds"] / 1e6)


def test_no_implementation_is_refused_before_anything_is_measured():
    with pytest.raises(ConfigError, match="no implementation was named: expected at least one of"):
        run_ops_benchmark("lenet", 2, (), threads=1, rounds=1)


def test_unknown_implementation_is_named():
    with pytest.raises(ConfigError, match=r"onednm.*did you mean 'onednn'"):
        run_ops_benchmark("lenet", 2, ("onednm",), threads=1, rounds=1)


@pytest.mark.slow
def test_operations_can_be_chosen_by_name_and_the_settings_are_kept(monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    report = run_ops_benchmark("lenet", 2, ("onednn",), threads=1, rounds=1, kinds=("dense",))
    assert {row["operation"] for row in report["rows"]} == {"dense"}
    assert report["settings"]["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    with pytest.raises(ConfigError, match=r"unknown operation 'dens'.*did you mean 'dense'"):
        run_ops_benchmark("lenet", 2, ("onednn",), threads=1, rounds=1, kinds=("dens",))


@pytest.mark.slow
def test_without_winograd_nothing_but_direct_sums_is_measured():
    report = run_ops_benchmark(
        "cifar-quick", 1, ("numba",), threads=1, rounds=1, kinds=("convolution",), winograd=False
    )
    assert {row["algorithm"] for row in report["rows"]} == {"direct"}
    assert not any(row["candidates"] for row in report["rows"])


@pytest.mark.slow
def test_an_implementation_of_convolutions_alone_has_no_other_rows():
    report = run_ops_benchmark("lenet", 2, ("onednn", "fft"), threads=1, rounds=1)
    by_fft = {row["operation"] for row in report["rows"] if row["implementation"] == "fft"}
    assert by_fft == {"convolution"}
    assert {row["operation"] for row in report["comparisons"]} == {"convolution"}


@pytest.mark.slow
def test_contestants_in_bfloat16_move_half_the_activations():
    contestants = ("numba-bfloat16", "numba", "onednn-bfloat16")
    report = run_ops_benchmark("lenet", 32, contestants, threads=1, rounds=1, winograd=False)
    rows = {(row["shape"], row["direction"], row["implementation"]): row for row in report["rows"]}
    ours = {key: row for key, row in rows.items() if key[2] == "numba-bfloat16"}
    assert {row["operation"] for row in ours.values()} >= {"convolution", "max pooling", "dense"}
    for (shape, direction, _), row in ours.items():
        plain = rows[shape, direction, "numba"]
        assert row["compulsory_bytes"] < plain["compulsory_bytes"]
        assert row["layout_bytes"] < plain["layout_bytes"]
        theirs = rows.get((shape, direction, "onednn-bfloat16"))
        assert (theirs is not None) == (row["operation"] in ("convolution", "dense"))
    assert f"GFLOP/s, in bfloat16 {report['bfloat16_gemm_gflops']:.0f}, copy" in format_table(
        report
    )
