"""Starts of real runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knltrain.bench.start import benchmark
from knltrain.bench.start.benchmark import run_start_benchmark
from knltrain.bench.step.peer_process import PeerError
from knltrain.errors import ConfigError


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "bounds_of", lambda cpus: {"sgemm_gflops": float(len(cpus))})


@pytest.mark.slow
@pytest.mark.usefixtures("bounds")
def test_a_start_compiles_what_no_start_before_it_has_left() -> None:
    told: list[str] = []
    report = run_start_benchmark(
        ["lenet"],
        ["empty", "filled"],
        batch=16,
        rounds=1,
        overrides=("backend.threads=1", "placement.pin=false"),
        tell=told.append,
    )
    empty, filled = report["rows"]
    assert [line.partition(": ")[2].rpartition(":")[0] for line in told] == [
        "lenet, empty",
        "lenet, filled",
    ]
    assert (empty["cache"], filled["cache"]) == ("empty", "filled")
    assert empty["kernels_compiled"] > 5
    assert filled["kernels_compiled"] == 0
    for row in (empty, filled):
        assert row["of_rounds"] == [row["seconds"]]
        assert row["seconds"] > row["kernel_seconds"] * (row is filled) > -1
        assert row["processor_seconds"] > 0
    assert empty["processor_seconds"] > filled["processor_seconds"]


@pytest.mark.slow
@pytest.mark.usefixtures("bounds")
def test_a_run_that_fails_tells_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"batch": 16, "rounds": 1, "overrides": ("network.module=nowhere.py:make",)}
    monkeypatch.setattr(benchmark, "load_config", lambda *_: None)
    with pytest.raises(PeerError, match=r"the start of lenet failed:\n(.|\n)*nowhere"):
        run_start_benchmark(["lenet"], ["filled"], **chosen)


@pytest.mark.parametrize(
    ("caches", "more", "expected"),
    [
        (["full"], {}, "--caches full: expected empty, filled, package"),
        ([], {}, "expected --networks and --caches"),
        (["package"], {}, "--package FOLDER: expected both or neither"),
        (["empty"], {"package": Path("/tmp")}, "--package FOLDER: expected both or neither"),
        (["empty"], {"overrides": ("train.batsh=1",)}, "batsh"),
    ],
)
def test_bad_settings_are_named_before_anything_is_measured(
    caches: list[str], more: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        run_start_benchmark(["lenet"], caches, **more)
