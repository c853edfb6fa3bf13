from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import final

import numpy as np
import pytest
from click.testing import CliRunner

from knltrain.assembly import build_network
from knltrain.bench.nodes import benchmark
from knltrain.bench.nodes.benchmark import run_nodes_benchmark
from knltrain.bench.nodes.configuration import configuration, network_of
from knltrain.bench.nodes.training import Ground, Training, TrainingFigures
from knltrain.cli import commands
from knltrain.communication.mpi.library import mpi_library
from knltrain.communication.oneccl.library import installed
from knltrain.config import load_config
from knltrain.errors import ConfigError
from knltrain.launch.temporary_folder import PREFIX
from knltrain.network.parameters import ParameterVector

from ...hosts import hosts_or_skip
from ...marks import by_cost

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("gloo-bfloat16", "ccl", "ddp-ccl"), marks=pytest.mark.long),
    ],
    ids=["gloo", "all"],
)
@pytest.mark.usefixtures("two_cores")
def test_trainings_on_two_hosts_are_compared_with_those_on_one(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    with hosts_or_skip(2):
        pass
    chosen = ["one-host", "gloo", "layerwise-gloo", "ddp-one-host", "ddp-gloo"]
    chosen += [name for name in more if "ccl" not in name or installed() is not None]
    report_file = tmp_path / "report.json"
    words = ["bench", "nodes", "--network", "cifar-quick", "--batch", "8", "--steps", "3"]
    told = CliRunner().invoke(
        commands,
        [
            *(*words, "--rounds", "1", "--trainings", ",".join(chosen)),
            *("--trace-steps", "2", "--json", str(report_file)),
        ],
    )
    assert told.exit_code == 0, (told.output, told.exception)
    report = json.loads(report_file.read_text())
    rows = {row["name"]: row for row in report["rows"]}
    assert list(rows) == chosen
    assert all(row["images_per_second"] > 0 for row in rows.values())
    for name, alone in (("gloo", "one-host"), ("ddp-gloo", "ddp-one-host")):
        share = rows[name]["images_per_second"] / rows[alone]["images_per_second"]
        assert rows[name]["efficiency"] == pytest.approx(share)
    assert rows["one-host"]["efficiency"] is None
    assert 0 <= rows["layerwise-gloo"]["hidden"] <= 1
    assert rows["ddp-gloo"]["hidden"] is None
    assert "ddp-gloo: DistributedDataParallel over gloo" in told.output
    assert report["machine"]["before"]["sgemm_gflops"] > 0


@pytest.mark.long
@pytest.mark.usefixtures("two_cores")
def test_four_hosts_share_two_cores_and_a_star_is_set_beside_seasgd(tmp_path: Path) -> None:
    with hosts_or_skip(4):
        pass
    _needs_pmi()
    report_file = tmp_path / "report.json"
    words = ["bench", "nodes", "--network", "lenet", "--batch", "8", "--steps", "5", "--rounds"]
    more = ["1", "--nodes", "4", "--workers-per-core", "2", "--trainings", "seasgd,star"]
    kept = ["--latency-us", "200", "--trace-steps", "3", "--json", str(report_file)]
    told = CliRunner().invoke(commands, [*words, *more, *kept])
    assert told.exit_code == 0, (told.output, told.exception)
    report = json.loads(report_file.read_text())
    seasgd, star = report["rows"]
    ratio = star["communication_seconds"] / seasgd["communication_seconds"]
    assert report["star_by_seasgd"]["median"] == pytest.approx(ratio)
    assert f"star's is {ratio:.2f} times that of seasgd" in told.output
    assert 0 <= seasgd["hidden"] <= 1
    traces = sorted(file.name for file in tmp_path.glob("trace-*"))
    assert traces == [
        f"trace-{name}-{rank}.json" for name in ("seasgd", "star") for rank in range(4)
    ]


def _needs_pmi() -> None:
    try:
        if not mpi_library().speaks_pmi:
            pytest.skip("this MPI needs its own launcher")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("nodes", "workers_per_core", "expected"),
    [
        (1, 1, "--nodes 1: expected at least 2"),
        (4, 3, "--workers-per-core 3: expected a number that divides --nodes 4"),
        (2, 2, "--workers-per-core 2: .*leaves 2 cores"),
        (1000, 1, "--nodes 1000: .*with a larger --workers-per-core they share"),
    ],
)
def test_hosts_without_cores_are_refused(nodes: int, workers_per_core: int, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        run_nodes_benchmark(
            "lenet",
            ["gloo"],
            nodes=nodes,
            workers_per_core=workers_per_core,
            gbits=10,
            batch=8,
            steps=1,
            rounds=1,
        )


def test_a_network_that_is_none_is_refused_before_there_are_hosts() -> None:
    with pytest.raises(ConfigError, match=r"'lenett'.*lenet"):
        run_nodes_benchmark("lenett", ["gloo"], nodes=2, gbits=10, batch=8, steps=1, rounds=1)


@final
class Looks(Training):
    """One that trains nothing, and takes down on what it could."""

    of_one_host = None

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = self.what = name
        self._log = log
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.size = 0

    def train(self, ground: Ground, folder: Path) -> TrainingFigures:
        assert not list(folder.iterdir())
        (folder / "run.toml").write_text(configuration(ground, 1, 'method = "sync_sgd"'))
        self.size = build_network(load_config(folder / "run.toml")).packed_size
        with np.load(ground.job / "arrays.npz") as job:
            self.shapes = {name: job[name].shape for name in job.files}
        self._log.append(self.name)
        return TrainingFigures(float(len(self._log)))


@pytest.mark.usefixtures("two_cores")
def test_rounds_alternate_and_all_train_the_same_network(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    one, other = Looks("one", log), Looks("other", log)
    monkeypatch.setattr(benchmark, "named", lambda _chosen: [one, other])
    monkeypatch.setattr(benchmark, "hosts", lambda *_: nullcontext())
    monkeypatch.setattr(benchmark, "link_gbytes_per_second", lambda _made: 1.0)
    monkeypatch.setattr(benchmark, "bounds_of", lambda _cpus: {})
    told: list[str] = []
    report = run_nodes_benchmark(
        "resnet-18", [], nodes=2, gbits=10, batch=1, steps=1, rounds=3, tell=told.append
    )
    assert log == ["one", "other"] * 3
    assert [row["of_rounds"] for row in report["rows"]] == [[1, 3, 5], [2, 4, 6]]
    assert told[1] == "round 1 of 3, other: 2.00 images/s"
    described = network_of("resnet-18")
    assert one.size == described.packed_size
    expected = {name: view.shape for name, view in ParameterVector(described).views.items()}
    assert {name: one.shapes[name] for name in expected} == expected


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("training", by_cost(["one-host", "gloo", "ddp-gloo", "star"], "star"))
def test_nothing_is_left_of_a_bench_that_is_stopped(tmp_path: Path, training: str) -> None:
    with hosts_or_skip(2):
        pass
    if training == "star":
        _needs_pmi()
    options = ["--network", "lenet", "--batch", "8", "--steps", "3", "--rounds", "1000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "knltrain", "bench", "nodes", *options, "--trainings", training],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    time.sleep(2)  # into the next round
    process.terminate()
    _, more = process.communicate(timeout=120)
    assert first.startswith(f"round 1 of 1000, {training}: "), (first, more)
    assert (process.returncode, more.splitlines()[-1]) == (143, "error: stopped by SIGTERM")
    assert not list(tmp_path.glob(f"{PREFIX}*"))
