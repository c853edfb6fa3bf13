from __future__ import annotations

from typing import Any

import pytest

from knltrain.bench.cnn.summary import kind_rows, layer_rows, step_row


def stage(
    kind: str, direction: str, seconds: float, flops: int, moved: int, *layers: str
) -> dict[str, Any]:
    return {
        "name": layers[0] if layers else kind,
        "layers": list(layers),
        "intensity": flops / moved if moved else None,
        "class": kind,
        "direction": direction,
        "seconds": {"mean": seconds},
        "flops": flops,
        "compulsory_bytes": moved,
        "bound_seconds": seconds / 4 if flops else None,
    }


def exchanged(moving: float, exposed: float, *layers: str) -> dict[str, Any]:
    return {
        "place": 0,
        "layers": list(layers),
        "moving_seconds": moving,
        "issued_seconds": 0.009,
        "exposed_seconds": exposed,
        "packed_bytes": 40,
        "wire_bytes": 0,
        "exchanged_bytes": 80.0,
        "communication_intensity": None,
    }


PROFILE = {
    "batch_per_worker": 8,
    "batches_per_step": 2,
    "ranks": [{}, {}],
    "exchange_bytes": 50,
    "workers_per_node": 2,
    "communication_period": 3,
    "step_seconds": {"mean": 0.1},
    "machine": [{"sgemm_flops_per_second": 2e9, "copy_bytes_per_second": 3e9}],
    "communication": {"hidden_share": 0.25, "exposed_seconds": 0.03},
    "parts": [
        {"name": "update", "seconds": 0.01},
    ],
    "stages": [
        stage("convolution 3x3", "forward", 0.02, 600, 10, "conv", "bn", "relu"),
        stage("convolution 3x3", "backward_data", 0.02, 600, 10, "conv", "bn", "relu"),
        stage("dense", "backward", 0.01, 300, 5, "fc"),
        stage("data movement", "load", 0.005, 0, 5),
        stage("exchange", "ready", 0.001, 0, 0),
        stage("elementwise", "sum", 0.0, 0, 0),
    ],
    "exchanges": [exchanged(0.006, 0.001, "fc"), exchanged(0.004, 0.002, "bn")],
    "checks": [{"name": "rest of a step", "passed": False}, {"name": "others", "passed": True}],
}


def test_a_step_is_told_by_its_parts_and_intensities() -> None:
    row = step_row("small", "2 workers", PROFILE)
    assert row["images_per_second"] == pytest.approx(320)
    assert row["forward_seconds"] == pytest.approx(0.02)
    assert row["backward_seconds"] == pytest.approx(0.03)
    assert row["exposed_seconds"] == pytest.approx(0.03)
    assert row["arithmetic_intensity"] == 1500 / 30
    assert row["communication_intensity"] == 2 * 3 * 30
    alone = step_row("small", "1 worker", {**PROFILE, "ranks": [{}], "exchange_bytes": None})
    assert alone["exposed_seconds"] is alone["communication_intensity"] is None


def test_stages_of_a_kind_are_summed_up() -> None:
    rows = kind_rows("small", "2 workers", PROFILE)
    kinds = ["convolution 3x3", "dense", "data movement", "exchange"]
    assert [row["operation"] for row in rows] == kinds
    assert rows[0]["share"] == pytest.approx(0.4)
    assert rows[0]["gflops"] == pytest.approx(1200 / 0.04 / 1e9)
    assert rows[0]["efficiency"] == pytest.approx(0.25)
    assert rows[2]["gflops"] is None


def test_stages_and_exchanges_are_told() -> None:
    row = step_row("small", "2 workers", PROFILE)
    assert [each["name"] for each in row["stages"]] == [
        *("conv", "conv", "fc", "data movement", "exchange"),
    ]
    assert row["stages"][0] == {
        "name": "conv",
        "layers": ["conv", "bn", "relu"],
        "class": "convolution 3x3",
        "direction": "forward",
        "seconds": 0.02,
        "flops": 600,
        "bytes": 10,
        "intensity": 60.0,
    }
    assert [each["layers"] for each in row["exchanges"]] == [["fc"], ["bn"]]
    assert row["exchanges"][0]["issued_seconds"] == 0.009


def test_a_layer_has_the_exchanges_of_all_that_is_fused_into_it() -> None:
    conv, fc, load = layer_rows(step_row("small", "2 workers", PROFILE))
    assert (conv["layer"], conv["compute_seconds"]) == ("conv", pytest.approx(0.04))
    assert (conv["exchange_seconds"], conv["exposed_seconds"]) == (0.004, 0.002)
    assert (fc["exchange_seconds"], fc["exposed_seconds"]) == (0.006, 0.001)
    assert (load["layer"], load["exchange_seconds"]) == ("data movement", None)
    untimed = dict.fromkeys(("moving_seconds", "issued_seconds", "exposed_seconds"))
    nobody = {**PROFILE, "exchanges": [{**exchanged(1, 1, "fc"), **untimed}]}
    _, fc, _ = layer_rows(step_row("small", "2 workers", nobody))
    assert (fc["exchange_seconds"], fc["exposed_seconds"]) == (None, None)
    several = {**PROFILE, "exchanges": [exchanged(0.006, 0.001, "bn", "fc"), exchanged(1, 1, "x")]}
    conv, fc, _ = layer_rows(step_row("small", "2 workers", several))
    assert (conv["exchange_seconds"], fc["exchange_seconds"]) == (0.006, None)
