from __future__ import annotations

from typing import Any

import pytest

from knltrain.bench.cnn.summary import kind_rows, step_row


def stage(kind: str, direction: str, seconds: float, flops: int, moved: int) -> dict[str, Any]:
    return {
        "class": kind,
        "direction": direction,
        "seconds": {"mean": seconds},
        "flops": flops,
        "compulsory_bytes": moved,
        "bound_seconds": seconds / 4 if flops else None,
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
    "communication": {"hidden_share": 0.25},
    "parts": [
        {"name": "update", "seconds": 0.01},
        {"name": "waiting", "seconds": 0.02},
        {"name": "moving", "seconds": 0.005},
        {"name": "center_update", "seconds": 0.0},
    ],
    "stages": [
        stage("convolution 3x3", "forward", 0.02, 600, 10),
        stage("convolution 3x3", "backward_data", 0.02, 600, 10),
        stage("dense", "backward", 0.01, 300, 5),
        stage("data movement", "load", 0.005, 0, 5),
        stage("exchange", "ready", 0.0, 0, 0),
    ],
    "checks": [{"name": "rest of a step", "passed": False}, {"name": "others", "passed": True}],
}


def test_a_step_is_told_by_its_parts_and_intensities() -> None:
    row = step_row("small", "2 workers", PROFILE)
    assert row["images_per_second"] == pytest.approx(320)
    assert row["forward_seconds"] == pytest.approx(0.02)
    assert row["backward_seconds"] == pytest.approx(0.03)
    assert row["exposed_seconds"] == pytest.approx(0.025)
    assert row["arithmetic_intensity"] == 1500 / 30
    assert row["communication_intensity"] == 2 * 3 * 30
    alone = step_row("small", "1 worker", {**PROFILE, "ranks": [{}], "exchange_bytes": None})
    assert alone["exposed_seconds"] is alone["communication_intensity"] is None


def test_stages_of_a_kind_are_summed_up() -> None:
    rows = kind_rows("small", "2 workers", PROFILE)
    assert [row["operation"] for row in rows] == ["convolution 3x3", "dense", "data movement"]
    assert rows[0]["share"] == pytest.approx(0.4)
    assert rows[0]["gflops"] == pytest.approx(1200 / 0.04 / 1e9)
    assert rows[0]["efficiency"] == pytest.approx(0.25)
    assert rows[2]["gflops"] is None
