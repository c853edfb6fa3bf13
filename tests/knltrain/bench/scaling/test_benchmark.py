"""Trainings on several grounds, few steps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.bench.scaling import benchmark
from knltrain.bench.scaling.benchmark import Ground, run_scaling_benchmark
from knltrain.errors import ConfigError
from knltrain.scaling import draw_scaling

from ...hosts import hosts_or_skip

needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")
FEW = ("train.epochs=1", "data.train_images=192", "data.test_images=64", "backend.threads=1")


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "bounds_of", lambda cpus: {"sgemm_gflops": float(len(cpus))})


@pytest.mark.slow
@needs_two_cpus
@pytest.mark.usefixtures("bounds")
def test_one_worker_and_two_are_compared_and_their_runs_kept(tmp_path: Path) -> None:
    told: list[str] = []
    options: dict[str, Any] = {"overrides": FEW, "runs": tmp_path, "tell": told.append}
    report = run_scaling_benchmark(
        None, nodes=[1], workers=[1, 2], batches=[32], rounds=1, **options
    )
    assert told == ["round 1 of 1: 1x1-batch-32", "round 1 of 1: 1x2-batch-64"]
    assert (report["scaling"], report["link_gbits"]) == ("weak", None)
    one, two = report["rows"]
    assert (one["workers"], one["batch"], two["workers"], two["batch"]) == (1, 32, 2, 64)
    assert two["efficiency"] > 0
    assert two["communication_share"] > 0
    assert [len(row["accuracy_by_seconds"]) for row in (one, two)] == [1, 1]
    assert report["machine"]["before"] == report["machine"]["after"]
    assert (tmp_path / "scaling" / "1x2-batch-64-1" / "result.json").exists()


@pytest.mark.slow
@needs_two_cpus
@pytest.mark.usefixtures("bounds")
def test_two_nodes_train_a_configuration_of_ones_own(tmp_path: Path) -> None:
    with hosts_or_skip(2):
        pass
    config = tmp_path / "own.toml"
    config.write_text(benchmark.OF_ITSELF.replace("sync_easgd3", "sync_sgd"))
    report = run_scaling_benchmark(
        config,
        nodes=[1, 2],
        workers=[1],
        batches=[64],
        scaling="strong",
        rounds=1,
        overrides=(*FEW, "exchange.between_nodes=gloo"),
    )
    assert (report["scaling"], report["method"], report["link_gbits"]) == ("strong", "sync_sgd", 10)
    assert [(row["nodes"], row["batch"]) for row in report["rows"]] == [(1, 64), (2, 64)]


@needs_two_cpus
@pytest.mark.usefixtures("bounds")
def test_runs_of_one_call_are_not_taken_for_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[Path]] = []
    monkeypatch.setattr(benchmark, "_train", lambda *_: None)
    monkeypatch.setattr(benchmark, "scaling_of", lambda done, _kind: seen.append(done) or {})
    for _ in range(2):
        run_scaling_benchmark(
            None, nodes=[1], workers=[1, 2], batches=[32], rounds=1, runs=tmp_path
        )
    assert [each[0].parent.name for each in seen] == ["scaling", "scaling-2"]


@pytest.mark.parametrize(
    ("nodes", "workers", "expected"),
    [
        (1, 2, [[0, 1, 2, 3]]),
        (2, 1, [[0, 1], [2, 3]]),
        (4, 1, [[0, 1], [2, 3], [0, 1], [2, 3]]),
        (3, 2, [[0, 1, 2, 3]] * 3),
        (1, 1, [[0, 1]]),
    ],
)
def test_workers_take_cores_in_turn(nodes: int, workers: int, expected: list[list[int]]) -> None:
    assert benchmark._groups(Ground(nodes, workers, 8), [[0, 1], [2, 3]]) == expected


def test_workers_that_share_cores_have_a_thread_unless_more_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(benchmark, "on_node", lambda _cpus, words: seen.append(words) or words)
    monkeypatch.setattr(benchmark, "carried_out", lambda *_: (0, ""))
    ground, given = Ground(1, 2, 8), ("backend.threads=2",)
    benchmark._train(tmp_path, ground, [[0]], 1.0, given, "own")
    threads = [word for word in seen[0] if word.startswith("backend.threads")]
    assert threads == ["backend.threads=1", "backend.threads=2"]


@pytest.mark.slow
@needs_two_cpus
@pytest.mark.usefixtures("bounds")
def test_more_workers_than_cores_share_them(tmp_path: Path) -> None:
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    with pytest.raises(ConfigError, match=f"{2 * cores} workers: .*a larger --workers-per-core"):
        run_scaling_benchmark(None, nodes=[1], workers=[1, 2 * cores], batches=[32])
    report = run_scaling_benchmark(
        None,
        nodes=[1],
        workers=[1, 2 * cores],
        batches=[8],
        rounds=1,
        workers_per_core=2,
        overrides=(*FEW, "evaluation.every_epochs=0.25"),
        runs=tmp_path,
    )
    alone, shared = report["rows"]
    assert (report["cores"], report["cores_per_worker"]) == (cores, 1)
    assert (alone["workers"], shared["workers"]) == (1, 2 * cores)
    draw_scaling(report, tmp_path / "picture.svg")
    assert min(len(row["accuracy_by_seconds"]) for row in report["rows"]) >= 4
    assert "seconds of training" in (tmp_path / "picture.svg").read_text()


def test_numbers_that_are_given_twice_count_once() -> None:
    found = benchmark._grounds([1, 1], [1, 2, 1], [64], "strong")
    assert [each.name for each in found] == ["1x1-batch-64", "1x2-batch-64"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": [0]}, "expected --nodes, --workers and --batches of 1 or more"),
        ({"batches": []}, "expected --nodes, --workers and --batches of 1 or more"),
        ({"workers": [1]}, "all runs would have the same number of workers: expected several"),
        ({"workers": [1, 4096]}, "4096 workers: expected at most 1 for each of"),
        ({"scaling": "strong", "batches": [33]}, "33 images does not divide evenly among 2 wor"),
        ({"overrides": ("exchange.metod=easgd",)}, "did you mean 'exchange.method'"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(options: Any, message: str) -> None:
    given = {"nodes": [1], "workers": [1, 2], "batches": [32], **options}
    with pytest.raises(ConfigError, match=message):
        run_scaling_benchmark(None, **given)


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        run_scaling_benchmark(tmp_path / "missing.toml", nodes=[1], workers=[1, 2], batches=[32])
