"""Whole networks that really train, few steps."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from knltrain.bench.cnn.benchmark import _by_layers, run_cnn_benchmark
from knltrain.errors import ConfigError

from ...hosts import hosts_or_skip

needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")
LAYERS = [["ip2"], ["ip1"], ["conv2"], ["conv1"]]
FEW = {"batch": 4, "steps": 2, "method": "layerwise_sgd"}


@pytest.mark.slow
@needs_two_cpus
def test_networks_are_profiled_on_one_worker_and_on_two(tmp_path: Path) -> None:
    told: list[str] = []
    report = run_cnn_benchmark(["lenet"], [1, 2], [], **FEW, profiles=tmp_path, tell=told.append)
    grounds = ["1 worker", "2 workers"]
    assert [row["ground"] for row in report["rows"]] == grounds
    assert [line.partition(":")[0] for line in told] == [f"lenet, {each}" for each in grounds]
    alone, both = report["rows"]
    assert alone["exposed_seconds"] is None
    assert both["exposed_seconds"] > 0
    assert alone["arithmetic_intensity"] == both["arithmetic_intensity"]
    assert alone["exchanges"] == []
    assert [each["layers"] for each in both["exchanges"]] == LAYERS
    kept = [
        json.loads((tmp_path / f"lenet-{n}.json").read_text()) for n in ("1-worker", "2-workers")
    ]
    assert [len(each["ranks"]) for each in kept] == [1, 2]
    assert {row["operation"] for row in report["kinds"]} >= {"convolution 5x5", "dense"}


@pytest.mark.slow
@needs_two_cpus
def test_networks_are_profiled_on_hosts() -> None:
    with hosts_or_skip(2):
        pass
    report = run_cnn_benchmark(["lenet"], [], [2], **FEW)
    (row,) = report["rows"]
    assert (row["ground"], report["link_gbits"]) == ("2 hosts", 10.0)
    assert row["exposed_seconds"] > 0
    assert row["communication_intensity"] > 0
    assert [each["layers"] for each in row["exchanges"]] == LAYERS
    assert all(each["wire_bytes"] > 0 for each in row["exchanges"])
    assert all(each["moving_seconds"] > 0 for each in row["exchanges"])


@pytest.mark.parametrize(
    ("method", "packing"),
    [
        ("layerwise_sgd", {"packing": "per_layer"}),
        ("sync_sgd", {}),
        ("caffegpi", {}),
        ("hierarchical_easgd", {}),
        ("no_such", {}),
    ],
)
def test_what_is_exchanged_in_parts_is_exchanged_by_layers(
    method: str, packing: dict[str, str]
) -> None:
    assert _by_layers(method) == packing


@pytest.mark.parametrize(
    ("networks", "workers", "hosts", "message"),
    [
        (["lenett"], [1], [], "did you mean 'lenet'"),
        ([], [1], [], "nothing to measure"),
        (["lenet"], [], [], "nothing to measure"),
        (["lenet"], [0], [], "0 worker: expected 1 or more"),
        (["lenet"], [4096], [], "4096 workers: expected 1 or more, and at most one for each of"),
        (["lenet"], [], [1], "1 host: expected 2 or more"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(
    networks: list[str], workers: list[int], hosts: list[int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run_cnn_benchmark(networks, workers, hosts, **FEW)
