"""The step benchmark as a whole: real contestants, short rounds."""

import json
import os
import statistics

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
        assert row["share_of_sgemm_peak"] > 0
        assert len(row["rounds"]) == report["rounds"]
    assert rows["cpu"]["first_loss"] == pytest.approx(rows["torch"]["first_loss"], rel=1e-5)
    pairs = zip(rows["cpu"]["rounds"], rows["torch"]["rounds"], strict=True)
    ratio = statistics.median(cpu / torch for cpu, torch in pairs)
    assert rows["cpu"]["faster_than"] == {"torch": pytest.approx(ratio)}


class Scripted:
    """A contestant or machine whose answers are known beforehand."""

    def __init__(self, name, *answers):
        self.name, self._answers = name, list(answers)

    def measure(self, seconds):
        return self._answers.pop(0)

    steps_per_second = measure


def test_shares_and_ratios_are_medians_of_those_within_the_rounds():
    contestants = [Scripted("cpu", 1.0, 2.0, 6.0), Scripted("torch", 1.0, 1.0, 6.0)]
    machine = Scripted("machine", *({"sgemm_gflops": value} for value in (1.0, 4.0, 3.0)))
    bounds, rates = step._rounds(contestants, machine, 10, 3)
    assert rates == {"cpu": [10, 20, 60], "torch": [10, 10, 60]}
    ready = {"version": "1", "loss": 0.5}
    row = step._row("cpu", ready, rates, 10**8, bounds["sgemm_gflops"])
    assert row["images_per_second"] == 20
    assert row["share_of_sgemm_peak"] == pytest.approx(1.0)  # of 1, 0.5 and 2
    assert row["faster_than"] == {"torch": 1.0}  # of 1, 2 and 1


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


def test_threads_that_workers_cannot_share_evenly_are_refused():
    with pytest.raises(ConfigError, match="--workers 4096: expected a divisor of the 1 threads"):
        step.run_step_benchmark("lenet", 8, (), threads=1, rounds=1, workers=4096)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")
def test_workers_have_cores_of_their_own_unless_unpinned():
    groups = step._groups(2, 2)
    assert [len(group) for group in groups] == [1, 1]
    assert not set(groups[0]) & set(groups[1])
    patch = pytest.MonkeyPatch()
    patch.setattr(step, "ROUND_SECONDS", 0.05)
    report = step.run_step_benchmark("lenet", 16, ("unpinned",), threads=2, rounds=1, workers=2)
    patch.undo()
    assert [row["implementation"] for row in report["rows"]] == ["cpu", "unpinned"]
    assert report["workers"] == 2
    assert "2 workers with 2 threads in all" in step.format_table(report)
