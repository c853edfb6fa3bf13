from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from knltrain.bench.nodes.benchmark import run_nodes_benchmark
from knltrain.cli import commands
from knltrain.errors import ConfigError
from knltrain.exchange.mpi.library import mpi_library
from knltrain.exchange.oneccl.library import installed

from ...hosts import hosts_or_skip


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_trainings_on_two_hosts_are_compared_with_those_on_one(tmp_path: Path) -> None:
    with hosts_or_skip(2):
        pass
    chosen = ["one-host", "gloo", "gloo-bfloat16", "layerwise-gloo", "ddp-one-host", "ddp-gloo"]
    if installed() is not None:
        chosen += ["ccl", "ddp-ccl"]
    report_file = tmp_path / "report.json"
    words = ["bench", "nodes", "--network", "cifar-quick", "--batch", "8", "--steps", "3"]
    told = CliRunner().invoke(
        commands,
        [*words, "--rounds", "1", "--trainings", ",".join(chosen), "--json", str(report_file)],
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
    assert rows["layerwise-gloo"]["hidden"] <= 1
    assert rows["ddp-gloo"]["hidden"] is None
    assert "ddp-gloo: DistributedDataParallel over gloo" in told.output
    assert report["machine"]["before"]["sgemm_gflops"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_four_hosts_share_two_cores_and_a_star_is_set_beside_seasgd(tmp_path: Path) -> None:
    with hosts_or_skip(4):
        pass
    try:
        if not mpi_library().speaks_pmi:
            pytest.skip("this MPI needs its own launcher")
    except ConfigError as error:
        pytest.skip(str(error))
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
    assert 0 <= seasgd["hidden_in_trace"] <= 1
    traces = sorted(file.name for file in tmp_path.glob("trace-*"))
    assert traces == [f"trace-seasgd-{rank}.json" for rank in range(4)]


@pytest.mark.parametrize(
    ("nodes", "workers_per_core", "expected"),
    [
        (1, 1, "--nodes 1: expected 2 or more"),
        (4, 3, "--workers-per-core 3: expected a number that divides --nodes 4"),
        (2, 2, "--workers-per-core 2: .*leaves 2 cores"),
        (1000, 1, "--nodes 1000: .*with --workers-per-core 2 or more they share cores"),
    ],
)
def test_hosts_without_cores_are_refused(nodes: int, workers_per_core: int, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        run_nodes_benchmark(
            "lenet",
            ["star"],
            nodes=nodes,
            workers_per_core=workers_per_core,
            gbits=10,
            batch=8,
            steps=1,
            rounds=1,
        )
