"""A loop with and without Elastic in turns: real workers, short rounds."""

from __future__ import annotations

import os
from typing import Any

import pytest

from knltrain.bench.elastic import benchmark
from knltrain.bench.elastic.benchmark import DifferentLosses, run_elastic_benchmark
from knltrain.bench.elastic.table import format_table
from knltrain.bench.step.peer_process import PeerError, PeerProcess
from knltrain.errors import ConfigError

needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")


@pytest.fixture(scope="module")
def report() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "TURN_SECONDS", 0.02)
        closed: list[int] = []
        close = PeerProcess.close

        def noted(process: PeerProcess) -> None:
            close(process)
            closed.append(process._process.returncode)

        patch.setattr(PeerProcess, "close", noted)
        found = run_elastic_benchmark("lenet", 4, "local_sgd", 3, 2, 2)
        yield {**found, "closed": closed}


@pytest.mark.slow
@needs_two_cpus
def test_the_overhead_is_that_of_the_rounds(report: dict[str, Any]) -> None:
    plain, ours = report["rows"]
    assert [plain["loop"], ours["loop"]] == ["plain", "elastic"]
    pairs = zip(plain["round_seconds"], ours["round_seconds"], strict=True)
    ratios = [elastic / alone for alone, elastic in pairs]
    assert len(ratios) == 2
    assert report["overhead"] == pytest.approx(sum(ratios) / 2 - 1)
    assert report["parameter_bytes"] == 4 * 431_152
    assert report["closed"] == [0, 0]  # none had to be killed


@pytest.mark.slow
@needs_two_cpus
def test_the_table_has_a_line_for_each_loop(report: dict[str, Any]) -> None:
    lines = format_table(report).splitlines()
    assert lines[0].startswith("lenet, 1.7 MB of parameters, batch 4 per worker, 2 workers with 1")
    assert [line.split()[0] for line in lines[-3:]] == ["plain", "elastic", "overhead"]
    assert lines[-1].startswith("overhead of local_sgd after every 3 steps: ")


class Scripted:
    """A crew whose losses are known beforehand."""

    def __init__(self, plain: float, elastic: float) -> None:
        self._losses = [[plain], [elastic]]

    def answers(self, question: object) -> list[dict[str, Any]]:
        return [{"losses": self._losses}]


def test_loops_that_differ_are_not_compared() -> None:
    benchmark._check_losses(Scripted(2.0, 2.0))  # type: ignore[arg-type]
    with pytest.raises(DifferentLosses, match=r"is 2.0 by itself, and 2.1 with Elastic"):
        benchmark._check_losses(Scripted(2.0, 2.1))  # type: ignore[arg-type]


@pytest.mark.slow
@needs_two_cpus
def test_what_elastic_refuses_is_told() -> None:
    with pytest.raises(PeerError, match="caffegpi"):
        run_elastic_benchmark("lenet", 4, "caffegpi", 1, 2, 1)


def test_unknown_networks_and_too_many_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="lenett"):
        run_elastic_benchmark("lenett", 4, "sync_easgd", 1, 2, 1)
    with pytest.raises(ConfigError, match="1000"):
        run_elastic_benchmark("lenet", 4, "sync_easgd", 1, 1000, 1)
