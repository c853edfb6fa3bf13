"""Steps of DDP over backends in turns: real ranks, short rounds."""

from __future__ import annotations

import os
from typing import Any

import pytest

from knltrain.bench.ddp import benchmark
from knltrain.bench.ddp.benchmark import DifferentLosses, run_ddp_benchmark
from knltrain.bench.ddp.table import format_table
from knltrain.errors import ConfigError

needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")


@pytest.fixture(scope="module")
def report() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "TURN_SECONDS", 0.02)
        yield run_ddp_benchmark(["knlshm", "gloo"], 2, 64, 8, 2)


@pytest.mark.slow
@needs_two_cpus
def test_backends_learn_the_same_and_are_compared_both_ways(report: dict[str, Any]) -> None:
    ours, theirs = report["rows"]
    assert [ours["backend"], theirs["backend"]] == ["knlshm", "gloo"]
    for rank in range(2):
        assert len(set(ours["losses"][rank])) == len(ours["losses"][rank]) == 5
        assert ours["losses"][rank] == pytest.approx(theirs["losses"][rank], rel=1e-4)
    assert ours["losses"][0] != ours["losses"][1]
    # 392 inputs, two layers of 64, 15 classes, and a bias each.
    assert report["parameters"] == 393 * 64 + 65 * 64 + 65 * 15
    assert len(ours["round_seconds"]) == 2
    pairs = zip(ours["round_seconds"], theirs["round_seconds"], strict=True)
    ratios = [gloo / knlshm for knlshm, gloo in pairs]
    assert ours["times_as_fast_as"] == {"gloo": pytest.approx(sum(ratios) / 2)}
    assert 0 < ours["least_seconds"] <= ours["seconds"] < 60


@pytest.mark.slow
@needs_two_cpus
def test_table_has_a_line_for_each_backend(report: dict[str, Any]) -> None:
    lines = format_table(report).splitlines()
    assert "64 wide, 0.1 MB of parameters, batch 8 per rank, 2 ranks with 1 core" in lines[0]
    assert lines[-3].split() == ["step", "least", "steps/s", "to", "knlshm", "to", "gloo"]
    assert lines[-2].split()[0] == "knlshm"
    assert lines[-1].split()[0] == "gloo"
    assert lines[-1].endswith("x")


def test_backends_that_learn_differently_are_not_compared() -> None:
    with pytest.raises(
        DifferentLosses, match=r"over knlshm are \[\[1.0\]\], over gloo \[\[1.1\]\]"
    ):
        benchmark._check_same({"knlshm": [[1.0]], "gloo": [[1.1]]})
    benchmark._check_same({"knlshm": [[1.0]], "gloo": [[1.00001]]})


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--backends 'glo'.*did you mean 'gloo'"):
        run_ddp_benchmark(["glo"], 2, 64, 8, 1)
    with pytest.raises(ConfigError, match="--backends: expected some of knlshm, gloo"):
        run_ddp_benchmark([], 2, 64, 8, 1)
    with pytest.raises(ConfigError, match="--width 60: expected a multiple of 8"):
        run_ddp_benchmark(["gloo"], 2, 60, 8, 1)
    with pytest.raises(ConfigError, match="--workers 1: expected at least 2"):
        run_ddp_benchmark(["gloo"], 1, 64, 8, 1)
