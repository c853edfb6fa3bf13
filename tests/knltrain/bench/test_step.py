"""The step benchmark as a whole: real contestants, short rounds."""

import json

import pytest

from knltrain.bench import step
from knltrain.errors import ConfigError


@pytest.fixture(scope="module")
def report():
    patch = pytest.MonkeyPatch()
    patch.setattr(step, "ROUND_SECONDS", 0.05)
    yield step.run_step_benchmark("lenet", 8, ("torch",), threads=1, rounds=2)
    patch.undo()


def test_head_holds_machine_and_its_bounds(report):
    assert report["machine"]["model"]
    assert report["sgemm_gflops"] > 0
    assert report["copy_gbytes_per_second"] > 0
    assert json.loads(json.dumps(report)) == report


def test_rows_hold_rate_share_and_the_same_first_loss(report):
    rows = {row["implementation"]: row for row in report["rows"]}
    assert list(rows) == ["cpu", "torch"]
    for row in rows.values():
        flops = row["images_per_second"] * report["training_flops_per_image"]
        assert row["share_of_sgemm_peak"] == pytest.approx(flops / report["sgemm_gflops"] / 1e9)
        assert len(row["rounds"]) == report["rounds"]
    assert rows["cpu"]["first_loss"] == pytest.approx(rows["torch"]["first_loss"], rel=1e-5)
    ratio = rows["cpu"]["images_per_second"] / rows["torch"]["images_per_second"]
    assert rows["cpu"]["faster_than"] == {"torch": pytest.approx(ratio)}


def test_table_names_every_implementation_and_the_bounds(report):
    table = step.format_table(report)
    assert "sgemm" in table
    assert all(row["implementation"] in table for row in report["rows"])


def test_unknown_peer_and_network_are_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown peer 'troch'.*did you mean 'torch'"):
        step.run_step_benchmark("lenet", 8, ("troch",), threads=1, rounds=1)
    with pytest.raises(ConfigError, match=r"lenett.*did you mean 'lenet'"):
        step.run_step_benchmark("lenett", 8, (), threads=1, rounds=1)


def test_more_threads_than_cores_are_refused():
    with pytest.raises(ConfigError, match="--threads 4096: the allowed cpus hold"):
        step.run_step_benchmark("lenet", 8, (), threads=4096, rounds=1)
