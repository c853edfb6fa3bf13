"""Rows, the best peer and the table, from rounds that are known beforehand."""

import pytest

from knltrain.bench.step.report import Measurement, best_peer, format_table, rows

MEASURED = Measurement(
    ready={
        "cpu": {"version": "ours 1", "loss": 0.5},
        "torch": {"version": "torch 2", "loss": 0.5},
        "ipex": {"version": "IPEX 3", "loss": 0.5},
        "unpinned": {"version": "ours 1", "loss": 0.5},
    },
    rates={
        "cpu": [10.0, 20.0, 60.0],
        "torch": [10.0, 10.0, 60.0],
        "ipex": [5.0, 40.0, 10.0],
        "unpinned": [80.0, 80.0, 80.0],
    },
    peak_bytes={"cpu": 3 << 30, "torch": 4 << 30, "ipex": 2 << 30, "unpinned": 3 << 30},
    bounds={"sgemm_gflops": [1.0, 4.0, 3.0]},
)


def report(**changes):
    return {
        "network": "lenet",
        "batch": 10,
        "evaluates": False,
        "threads": 2,
        "workers": 1,
        "rounds": 3,
        "machine": {"model": "a machine"},
        "device": {},
        "precision": "float32",
        "sgemm_gflops": 3.0,
        "copy_gbytes_per_second": 8.0,
        "losses_agree": True,
        "rows": rows(MEASURED, 10**8),
        "best_peer": best_peer(MEASURED),
        **changes,
    }


def test_shares_and_ratios_are_medians_of_those_within_the_rounds():
    cpu, torch, ipex, _ = rows(MEASURED, 10**8)
    assert cpu["images_per_second"] == 20
    assert cpu["share_of_sgemm_peak"] == pytest.approx(1.0)  # of 1, 0.5 and 2
    assert cpu["faster_than"] == {"torch": 1.0, "ipex": 2.0, "unpinned": 0.25}
    assert torch["ours_to_it"] == 1.0  # of 1, 2 and 1
    assert ipex["ours_to_it"] == 2.0  # of 2, 0.5 and 6
    assert cpu["ours_to_it"] == 1.0


def test_memory_is_weighed_against_ours():
    _, torch, ipex, _ = rows(MEASURED, 10**8)
    assert (torch["peak_bytes"], torch["our_peak_to_its"]) == (4 << 30, 0.75)
    assert ipex["our_peak_to_its"] == 1.5


def test_best_peer_is_the_fastest_of_the_others_in_each_round():
    assert best_peer(MEASURED) == {
        "ours_to_it": 1.0,  # of 1 (torch), 0.5 (ipex) and 1 (torch)
        "rounds": ["torch", "ipex", "torch"],
    }


def test_ours_without_pins_is_no_other_implementation():
    alone = Measurement(
        {name: MEASURED.ready[name] for name in ("cpu", "unpinned")},
        {name: MEASURED.rates[name] for name in ("cpu", "unpinned")},
        MEASURED.peak_bytes,
        MEASURED.bounds,
    )
    assert best_peer(alone) is None
    assert "fastest" not in format_table(report(rows=rows(alone, 1), best_peer=None))


def test_table_has_a_line_for_each_and_the_best_peer():
    lines = format_table(report()).splitlines()
    assert lines[0] == "lenet, batch 10, 2 threads on a machine, medians of 3 alternating rounds"
    torch = next(line for line in lines if line.startswith("torch"))
    assert " ".join(torch.split()) == "torch 10.00 1.00 1.00x 4.00 0.75x 0.500000 torch 2"
    assert "1.00x (torch in 2, ipex in 1)" in lines[-1]
    assert "dropout" not in format_table(report())


def test_table_says_that_evaluations_were_timed():
    assert format_table(report(evaluates=True)).startswith("evaluation of lenet, batch 10, ")


def test_table_says_where_losses_cannot_agree_and_how_many_workers_there_are():
    table = format_table(report(losses_agree=None, workers=2))
    assert "dropout draws differently in each: their first losses cannot agree" in table
    assert "2 workers with 2 threads in all" in table


def test_a_device_is_named_and_its_own_memory_weighed():
    on_device = Measurement(
        ready={
            "cuda": {"version": "ours 1", "loss": 0.5, "device_bytes": 1 << 30},
            "torch-graph": {"version": "torch 2", "loss": 0.5, "device_bytes": 2 << 30},
        },
        rates={"cuda": [2000.0], "torch-graph": [1000.0]},
        peak_bytes={"cuda": 5 << 30, "torch-graph": 5 << 30},
        bounds={"sgemm_gflops": [400_000.0]},
    )
    found = rows(on_device, 10**8)
    assert [row["our_peak_to_its"] for row in found] == [1, 0.5]
    assert best_peer(on_device) == {"ours_to_it": 2.0, "rounds": ["torch-graph"]}
    table = format_table(
        report(
            device={"device": "cuda:0", "model": "H200"},
            precision="bfloat16",
            sgemm_gflops=400_000.0,
            rows=found,
            best_peer=best_peer(on_device),
        )
    )
    assert "a machine, cuda:0 H200," in table
    assert "bfloat16 gemm 400,000 GFLOP/s" in table
    assert "of bfloat16 gemm" in table


def test_in_bfloat16_the_table_has_the_share_of_its_product():
    bounds = {
        "sgemm_gflops": [1.0],
        "bfloat16_gemm_gflops": [2.0],
        "bfloat16_convolution_gflops": [3.0],
    }
    measured = Measurement({"cpu": MEASURED.ready["cpu"]}, {"cpu": [10.0]}, {"cpu": 1}, bounds)
    (row,) = found = rows(measured, 10**8)
    assert (row["share_of_sgemm_peak"], row["share_of_bfloat16_gemm_peak"]) == (1.0, 0.5)
    medians = {key: values[0] for key, values in bounds.items()}
    lines = format_table(
        report(precision="bfloat16", rows=found, best_peer=None, **medians)
    ).splitlines()
    assert lines[1].startswith("sgemm 1, bfloat16 gemm 2, our bfloat16 convolution 3 GFLOP/s, copy")
    assert "of bfloat16 gemm" in lines[3]
    assert " ".join(lines[4].split()).startswith("cpu 10.00 0.50 1.00x")
