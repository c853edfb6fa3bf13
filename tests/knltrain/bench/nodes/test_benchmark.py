from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from knltrain.bench.nodes.benchmark import run_nodes_benchmark, trainings
from knltrain.cli import commands
from knltrain.errors import ConfigError
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


def test_trainings_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'mpi'.*ddp-gloo"):
        run_nodes_benchmark("lenet", ["mpi"], nodes=2, gbits=10, batch=8, steps=1, rounds=1)
    with pytest.raises(ConfigError, match="--trainings: expected some of one-host"):
        run_nodes_benchmark("lenet", [], nodes=2, gbits=10, batch=8, steps=1, rounds=1)


def test_each_training_on_hosts_is_compared_with_one_of_its_kind() -> None:
    found = {name: each.of_one_host for name, each in trainings().items()}
    assert found == {
        "one-host": None,
        "ddp-one-host": None,
        "ccl": "one-host",
        "gloo": "one-host",
        "ddp-ccl": "ddp-one-host",
        "ddp-gloo": "ddp-one-host",
        "ccl-bfloat16": "one-host",
        "gloo-bfloat16": "one-host",
        "layerwise-ccl": "one-host",
        "layerwise-gloo": "one-host",
    }
